"""A CloudMatrix384 supernode as a Python program: it runs communication code and times it.

Names load when they are first used, so that ``import ubnet`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ubnet.errors import UbnetError as UbnetError
    from ubnet.fabric import Fabric as Fabric
    from ubnet.fabric_graph import from_networkx as from_networkx
    from ubnet.fabric_graph import to_networkx as to_networkx
    from ubnet.fabrics import load_fabric as load_fabric
    from ubnet.flow_ends import simulate_flows as simulate_flows
    from ubnet.flowsim import FlowSim as FlowSim
    from ubnet.launch import compute as compute
    from ubnet.launch import run as run
    from ubnet.link_report import report_links as report_links
    from ubnet.tier_gain import tier_gains as tier_gains
    from ubnet.transfer import transfer_time as transfer_time

__version__ = "0.1.0"

_NAMES = {
    "Fabric": "ubnet.fabric",
    "FlowSim": "ubnet.flowsim",
    "UbnetError": "ubnet.errors",
    "compute": "ubnet.launch",
    "from_networkx": "ubnet.fabric_graph",
    "load_fabric": "ubnet.fabrics",
    "report_links": "ubnet.link_report",
    "run": "ubnet.launch",
    "simulate_flows": "ubnet.flow_ends",
    "tier_gains": "ubnet.tier_gain",
    "to_networkx": "ubnet.fabric_graph",
    "transfer_time": "ubnet.transfer",
}

__all__ = [
    "Fabric",
    "FlowSim",
    "UbnetError",
    "compute",
    "from_networkx",
    "load_fabric",
    "report_links",
    "run",
    "simulate_flows",
    "tier_gains",
    "to_networkx",
    "transfer_time",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'ubnet' has no attribute {name!r}")
    value = getattr(import_module(_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
