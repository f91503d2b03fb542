"""One prompt from prefill to decode: real pages, a real page table on both sides, and the time."""

from dataclasses import replace

import numpy as np

from ubnet.errors import OptionError
from ubnet.fabric import Fabric
from ubnet.transport import Transport

from .blocks import BlockList, Bytes
from .cache import PagedCache, prompt_blocks
from .delivery import Delivery, Parcel, deliver
from .model import KVModel, find_model
from .transfer import Move, TransferResult, transfer

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""An odd factor, so that multiples of it modulo 2**64 are all different (a Weyl sequence)."""


def transfer_prompt(
    fabric: Fabric,
    *,
    model: str | KVModel = "deepseek-r1",
    tokens: int = 4096,
    src: str | int | None = None,
    dst: str | int | None = None,
    transport: str | Transport = "roce",
    op: str = "write",
    page_tokens: int = 16,
    scattered: bool = False,
    payload: bool = True,
    seed: int = 0,
) -> TransferResult:
    """Move the KV cache of one prompt from one die to another.

    Parameters
    ----------
    fabric : Fabric
        Where it runs.
    model : str or KVModel
        Whose cache it is; a name of `MODELS`.
    tokens : int
        Tokens of the prompt.
    src, dst : str or int, optional
        Endpoints. Default: the first die, and the first one that is farthest from it.
    transport, op
        As in `transfer`.
    page_tokens : int
        Tokens of a page; every page of every layer is a block.
    scattered : bool
        Whether the pages lie anywhere in both caches, as in one long in use. By default they lie
        in a row behind page 0 (which serving engines keep empty), and every layer is one message.
    payload : bool
        Whether real bytes are moved and checked; False: the time alone, in no memory.
    seed : int
        Decides the bytes and the order of scattered pages.

    Returns
    -------
    TransferResult
        ``time_ps``, ``nbytes``, ``wrong`` (None without payload), ``delivery.checksum_ok``,
        ``load.busiest``, ``load.utilisation``, ``load.lower_bound_ps`` and more.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> from ubnet.units import format_time
    >>> result = transfer_prompt(load_fabric("cloudmatrix384"), tokens=1)
    >>> result.nbytes, result.blocks, result.messages, result.wrong, format_time(result.time_ps)
    (70272, 61, 61, 0, '13.07 us')
    """
    kept = find_model(model) if isinstance(model, str) else model
    rng = np.random.default_rng(seed)
    need = PagedCache(kept, 0, page_tokens).pages_of(tokens)
    cache = PagedCache(kept, max(need, 0) + 1, page_tokens)
    tables = [rng.permutation(need) if scattered else np.arange(need) for _ in range(2)]
    blocks = prompt_blocks(cache, tables[0] + 1, cache, tables[1] + 1, tokens)
    here, there = _ends(fabric, src, dst)
    result = transfer(fabric, [Move(here, there, blocks)], transport=transport, op=op)
    if not payload:
        return result
    layer = PagedCache(replace(kept, layers=1), cache.pages, page_tokens)
    alike = prompt_blocks(layer, tables[0] + 1, layer, tables[1] + 1, tokens)
    delivery = _delivered(alike, layer.nbytes, kept.layers, int(rng.integers(2**32)))
    return replace(result, delivery=delivery)


def _delivered(blocks: BlockList, nbytes: int, layers: int, first: int) -> Delivery:
    """Move the blocks of all layers and check them, one layer at a time in the memory of one.

    The pages lie alike in every layer and none leaves it, so the list of one layer is that of each;
    its memory stays in the cache of the processor, which that of a whole prompt does not.
    """
    runs = blocks.merged()
    target = np.zeros(nbytes, dtype=np.uint8)
    delivery = None
    for layer in range(layers):
        source = _distinct_words(first, layer * nbytes, nbytes)
        target[:] = 0
        delivery = deliver([Parcel(blocks, runs, source, target)], delivery)
    assert delivery is not None  # a model has layers
    return delivery


def _distinct_words(first: int, begin: int, nbytes: int) -> Bytes:
    """Return bytes from ``begin`` on of those in which no word of eight occurs twice.

    So a misplaced block shows.
    """
    start, end = first + begin // 8, first + -(-(begin + nbytes) // 8)
    words = np.arange(start, end, dtype=np.uint64)
    words *= GOLDEN
    return words.view(np.uint8)[begin % 8 :][:nbytes]


def _ends(
    fabric: Fabric, src: str | int | None, dst: str | int | None
) -> tuple[str | int, str | int]:
    """Return the two ends, the default ones where none is given."""
    dies = fabric.of_kind("die")
    pool = dies if len(dies) else np.arange(len(fabric.endpoints))
    if not len(pool):
        raise OptionError(f"fabric {fabric.name} has no endpoint: a transfer needs two")
    here = int(pool[0]) if src is None else src
    if dst is not None:
        return here, dst
    start = fabric.endpoint(here).index if isinstance(here, str) else here
    return here, int(pool[fabric.distance(np.full(len(pool), start), pool).argmax()])
