"""Who sends what to whom: the schedules of collective operations and the choice among them."""

from .build import build
from .choice import Candidate, choose
from .formulas import Cost, cost
from .registry import OPERATIONS, Operation, operation

__all__ = ["OPERATIONS", "Candidate", "Cost", "Operation", "build", "choose", "cost", "operation"]
