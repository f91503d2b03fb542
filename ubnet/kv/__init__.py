"""KV transfer: the cache of a prompt on its way from prefill to decode, bytes and time.

- `KVModel`, `MODELS`: bytes per token, from a model's architecture.
- `PagedCache`, `prompt_blocks`, `BlockList`: which bytes go where.
- `connect`: which prefill rank sends to which decode rank.
- `transfer`, `post_moves`: block lists between endpoints, over any transport of a fabric.
- `transfer_prompt`: all of it for one prompt.
"""

from .blocks import BlockList
from .cache import PagedCache, prompt_blocks
from .mapping import Connections, connect
from .model import DEEPSEEK_R1, LLAMA_3_1_70B, MODELS, KVModel, find_model
from .prompt import transfer_prompt
from .transfer import Move, TransferResult, post_moves, transfer

__all__ = [
    "DEEPSEEK_R1",
    "LLAMA_3_1_70B",
    "MODELS",
    "BlockList",
    "Connections",
    "KVModel",
    "Move",
    "PagedCache",
    "TransferResult",
    "connect",
    "find_model",
    "post_moves",
    "prompt_blocks",
    "transfer",
    "transfer_prompt",
]
