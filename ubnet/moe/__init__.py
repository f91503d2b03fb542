"""Expert parallelism with the names that its users know, on the ranks of a ubnet world.

`Buffer` and `EventOverlap` are DeepEP's, with numpy arrays in the place of tensors (bfloat16 and
float8_e4m3fn of ml_dtypes); `npu_moe_distribute_dispatch` and `npu_moe_distribute_combine` are
torch_npu's. Both run on the same core: real bytes move, and calls take the time of the fused
operators of the fabric's chips.
"""

from .ascend import npu_moe_distribute_combine, npu_moe_distribute_dispatch
from .buffer import Buffer
from .event import EventOverlap

__all__ = [
    "Buffer",
    "EventOverlap",
    "npu_moe_distribute_combine",
    "npu_moe_distribute_dispatch",
]
