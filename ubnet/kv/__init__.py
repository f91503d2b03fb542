"""KV transfer: the cache of a prompt on its way from prefill to decode, bytes and time.

- `KVModel`, `MODELS`: bytes per token, from a model's architecture.
- `PagedCache`, `prompt_blocks`, `BlockList`: which bytes go where.
- `connect`: which prefill rank sends to which decode rank.
- `transfer`, `post_moves`: block lists between endpoints, over any transport of a fabric.
- `transfer_prompt`: all of it for one prompt.
- `Carrier`: many transfers in one virtual clock: submit, advance, poll, cancel.
- `Deployment`, `Requests`, `serve`: many requests with arrivals and queues.
- `write_to_ranks`: blocks between the ranks of a program, under mpirun too.
- `burst`, `dispatch_beside_kv`: what the mapping of sources and the plane of its own are for.
- `TransferEngine`, `Agent`: Mooncake's and NIXL's calls on top of it.
"""

from .beside_decode import dispatch_beside_kv
from .between_ranks import write_to_ranks
from .blocks import BlockList
from .burst import burst
from .cache import PagedCache, prompt_blocks
from .carrier import Carrier
from .deployment import Deployment
from .descriptors import Strided
from .job import Job
from .mapping import Connections, connect
from .model import DEEPSEEK_R1, LLAMA_3_1_70B, MODELS, KVModel, find_model
from .mooncake import TransferEngine
from .nixl import Agent
from .plan import Plan, plan_bytes
from .prompt import transfer_prompt
from .requests import Requests, poisson_requests
from .serving import serve
from .serving_report import ServingReport
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
    "Deployment",
    "Job",
    "KVModel",
    "Move",
    "PagedCache",
    "Plan",
    "Requests",
    "ServingReport",
    "Status",
    "Strided",
    "TransferEngine",
    "TransferResult",
    "burst",
    "connect",
    "dispatch_beside_kv",
    "find_model",
    "plan_bytes",
    "poisson_requests",
    "post_moves",
    "prompt_blocks",
    "serve",
    "transfer",
    "transfer_prompt",
    "write_to_ranks",
]
