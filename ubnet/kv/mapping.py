"""Which prefill rank sends to which decode rank, so that every source carries the same load.

All ranks of a prefill group hold the same latent KV, so the source of a transfer can be chosen.
The published mapping [P, section 5] spreads it::

    ratio        = prefill_tp / decode_tp
    group_size   = decode_dp / ratio
    group        = decode_dp_rank // group_size
    prefill_rank = group * decode_tp + decode_tp_rank

Models whose KV heads are shared out over the ranks use the same rule among the ranks that hold
the same head: `copies` of a head take the place of the tensor-parallel sizes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Connections:
    """Who sends which heads to whom, one row a connection, ordered by decode rank and head.

    Attributes
    ----------
    prefill : ndarray of int64, shape (connections,)
        Rank in the prefill group that sends.
    decode : ndarray of int64, shape (connections,)
        Decode rank that receives: ``dp_rank * decode_tp + tp_rank``.
    first_head, heads : ndarray of int64, shape (connections,)
        The range of KV heads that goes over it.
    prefill_ranks : int
        Size of the prefill group.
    ratio, group_size : float
        Of the published mapping, for one head. Below 1, `ratio` says that a source serves
        several ranks of each decode group; `group_size` is then all of them.
    """

    prefill: Ints
    decode: Ints
    first_head: Ints
    heads: Ints
    prefill_ranks: int
    ratio: float
    group_size: float

    def __len__(self) -> int:
        return len(self.prefill)

    def loads(self) -> Ints:
        """Return the heads that each prefill rank sends, shape (prefill_ranks,)."""
        loads = np.zeros(self.prefill_ranks, dtype=np.int64)
        np.add.at(loads, self.prefill, self.heads)
        return loads


def connect(prefill_tp: int, decode_tp: int, decode_dp: int, heads: int = 1) -> Connections:
    """Map the ranks of a prefill group to those of a decode instance.

    Parameters
    ----------
    prefill_tp : int
        Ranks of the prefill group.
    decode_tp, decode_dp : int
        Tensor-parallel size and number of data-parallel groups of the decode instance.
    heads : int
        KV heads of the model (`KVModel.heads`); 1 for latent attention.

    Returns
    -------
    Connections
        Each decode rank receives every head that it holds exactly once.

    Raises
    ------
    OptionError
        If heads cannot be shared out evenly, or ratio or group size is no whole number; the
        message names both and the nearest sizes that fit.

    Examples
    --------
    >>> links = connect(prefill_tp=32, decode_tp=1, decode_dp=320)
    >>> links.ratio, links.group_size, set(links.loads().tolist())
    (32.0, 10.0, {10})
    """
    sizes = {"prefill_tp": prefill_tp, "decode_tp": decode_tp, "decode_dp": decode_dp}
    for name, value in {**sizes, "heads": heads}.items():
        if value < 1:
            raise OptionError(f"{name} must be at least 1, not {value}")
    for name in ("prefill_tp", "decode_tp"):
        _check_heads(name, sizes[name], heads)
    _check_whole(prefill_tp, decode_tp, decode_dp, heads)
    sources, sinks = max(prefill_tp // heads, 1), max(decode_tp // heads, 1)
    ratio = sources / sinks
    rank, head = _held(decode_tp, decode_dp, heads)
    copy = rank % decode_tp % sinks
    if sources >= sinks:
        group = rank // decode_tp // (decode_dp * sinks // sources)
        chosen = group * sinks + copy
    else:
        chosen = copy * sources // sinks
    source = head * sources + chosen if prefill_tp > heads else head // (heads // prefill_tp)
    first = np.ones(len(rank), dtype=bool)
    first[1:] = (np.diff(rank) != 0) | (np.diff(source) != 0)
    row = np.flatnonzero(first)
    count = np.diff(np.append(row, len(rank)))
    group_size = decode_dp / max(ratio, 1.0)
    return Connections(
        source[row], rank[row], head[row], count, prefill_tp, float(ratio), float(group_size)
    )


def _held(tp: int, dp: int, heads: int) -> tuple[Ints, Ints]:
    """Return every (decode rank, head that it holds) as two columns."""
    each = max(heads // tp, 1)
    rank = np.repeat(np.arange(tp * dp), each)
    head = rank % tp * heads // tp + np.tile(np.arange(each), tp * dp)
    return rank, head


def _check_heads(name: str, tp: int, heads: int) -> None:
    if heads % tp and tp % heads:
        fit = [n for n in range(1, heads + 1) if heads % n == 0]
        fit.append(-(-tp // heads) * heads)
        below = max(n for n in fit if n < tp)
        above = min(n for n in fit if n > tp)
        raise OptionError(
            f"{name}={tp} does not share out {heads} KV heads evenly; the nearest that fit: "
            f"{name}={below} or {name}={above}"
        )


def _check_whole(prefill_tp: int, decode_tp: int, decode_dp: int, heads: int) -> None:
    """Refuse a ratio or a group size that is no whole number, naming what fits."""
    sources, sinks = max(prefill_tp // heads, 1), max(decode_tp // heads, 1)
    if sinks % sources == 0 or (sources % sinks == 0 and decode_dp * sinks % sources == 0):
        return
    fit = [n for n in range(1, sources + sinks + 1) if n % sinks == 0 or sinks % n == 0]
    near = [max(n for n in fit if n <= sources), min(n for n in fit if n >= sources)]
    fits = []
    for n in dict.fromkeys(near):
        step = max(n // sinks, 1)
        sizes = [dp for dp in (decode_dp // step * step, -(-decode_dp // step) * step) if dp]
        groups = " or ".join(f"decode_dp={dp}" for dp in dict.fromkeys(sizes))
        fits.append(f"prefill_tp={n * heads} with {groups}")
    raise OptionError(
        f"prefill_tp={prefill_tp} to decode_tp={decode_tp}, decode_dp={decode_dp} gives ratio "
        f"{sources / sinks:g} and group size {decode_dp * sinks / sources:g}, and both must be "
        f"whole numbers; the nearest that fit: {'; '.join(fits)}"
    )
