"""KV transfer: the cache of a prompt on its way from prefill to decode, bytes and time.

- `KVModel`, `MODELS`: bytes per token, from a model's architecture.
- `PagedCache`, `prompt_blocks`, `BlockList`: which bytes go where.
- `connect`: which prefill rank sends to which decode rank.
- `transfer`, `post_moves`: block lists between endpoints, over any transport of a fabric.
- `transfer_prompt`: all of it for one prompt.
- `Carrier`: many transfers in one virtual clock: submit, advance, poll, cancel.
- `TransferEngine`, `Agent`: Mooncake's and NIXL's calls on top of it.
"""

from .blocks import BlockList
from .cache import PagedCache, prompt_blocks
from .carrier import Carrier
from .descriptors import Strided
from .job import Job
from .mapping import Connections, connect
from .model import DEEPSEEK_R1, LLAMA_3_1_70B, MODELS, KVModel, find_model
from .mooncake import TransferEngine
from .nixl import Agent
from .plan import Plan, plan_bytes
from .prompt import transfer_prompt
from .status import Status
from .transfer import Move, TransferResult, post_moves, transfer

__all__ = [
    "DEEPSEEK_R1",
    "LLAMA_3_1_70B",
    "MODELS",
    "Agent",
    "BlockList",
    "Carrier",
    "Connections",
    "Job",
    "KVModel",
    "Move",
    "PagedCache",
    "Plan",
    "Status",
    "Strided",
    "TransferEngine",
    "TransferResult",
    "connect",
    "find_model",
    "plan_bytes",
    "post_moves",
    "prompt_blocks",
    "transfer",
    "transfer_prompt",
]
