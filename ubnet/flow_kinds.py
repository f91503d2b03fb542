"""Flows of which many are alike: what distinguishes them once, and for each flow its kind.

A ring sends the same sizes between the same ranks in every step: millions of transfers, of some
thousand kinds. Whoever needs the columns of some flows takes them when it needs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.compressed_rows import pointers
from ubnet.fabric import Floats
from ubnet.jit import inner_kernel, kernel
from ubnet.transport import FlowColumns

Ints = NDArray[np.int64]
Kinds = NDArray[np.int32]

_ZERO, _NONE = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
NOTHING = FlowColumns(_ZERO, _ZERO, pointers(_ZERO), _NONE, np.zeros(0), np.full(1, np.inf), _ZERO)
"""A flow that moves nothing in no time."""

TRIED = 1 << 16
"""After so many flows, if more than half of them are of a kind of their own, alike ones are looked
for no further."""


@dataclass(frozen=True, eq=False)
class FlowKinds:
    """Columns of flows, in which what many have in common stands once.

    Attributes
    ----------
    columns : FlowColumns
        A row for each kind.
    kind : ndarray of int32, shape (flows,)
        The kind of each flow.
    weight : ndarray of float64, shape (kinds,), or None
        Its weight where it shares a resource; None: all alike.

    Examples
    --------
    >>> two = FlowColumns(*np.array([[5, 6], [0, 0]]), np.array([0, 1, 3]), np.array([7, 8, 9]),
    ...                   np.ones(3), np.full(2, np.inf), np.zeros(2, np.int64))
    >>> flows = FlowKinds(two, np.array([1, 0, 1], np.int32)).rows(slice(1, 3))
    >>> flows.nbytes, flows.route_ptr, flows.route_link
    (array([5, 6]), array([0, 1, 3]), array([7, 8, 9]))
    """

    columns: FlowColumns
    kind: Kinds
    weight: Floats | None = None

    @classmethod
    def among(cls, flows: int, parts: Sequence[tuple[Ints, "FlowKinds"]]) -> "FlowKinds":
        """Put parts into so many flows, each part with its places; the others move nothing."""
        kind = np.zeros(flows, dtype=np.int32)
        columns, weights = [NOTHING], [np.ones(1)]
        kinds = 1
        for place, part in parts:
            rows = len(part.columns.nbytes)
            kind[place] = part.kind + kinds
            columns.append(part.columns)
            weights.append(np.ones(rows) if part.weight is None else part.weight)
            kinds += rows
        alike = all(part.weight is None for _, part in parts)
        return cls(FlowColumns.joined(columns), kind, None if alike else np.concatenate(weights))

    @classmethod
    def each(cls, columns: FlowColumns) -> "FlowKinds":
        """Let each row be a flow, of a kind of its own."""
        return cls(columns, np.arange(len(columns.nbytes), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.kind)

    def rows(self, flows: Ints | slice) -> FlowColumns:
        """Return the columns of some flows, a row each."""
        c, kind = self.columns, self.kind[flows]
        ptr = pointers(np.diff(c.route_ptr)[kind])
        link, share = take_hops(c.route_ptr, c.route_link, c.route_share, kind, ptr[-1])
        return FlowColumns(
            c.nbytes[kind],
            c.startup_ps[kind],
            ptr,
            link,
            share,
            c.rate_cap[kind],
            c.latency_ps[kind],
        )

    def post_arguments(self, flows: Ints | slice) -> dict[str, Any]:
        """Return what `FlowSim.post` needs of some flows, in as few rows as can be."""
        kind = self.kind[flows]
        few = len(self.columns.nbytes) <= len(kind)
        c = self.columns if few else self.rows(flows)
        return {
            **c.post_arguments(),
            "weight": self.weight if few or self.weight is None else self.weight[kind],
            "kind": kind if few else None,
        }

    def resource_bytes(self, resources: int) -> Floats:
        """Return bytes times share on each of so many resources, shape (resources,)."""
        c = self.columns
        carried = np.zeros(resources)
        add_bytes(c.nbytes, c.route_ptr, c.route_link, c.route_share, self.kind, carried)
        return carried


@kernel
def take_hops(ptr: Ints, link: Ints, share: Floats, kind: Kinds, total: int) -> tuple[Ints, Floats]:
    """Return links and shares of flows of these kinds, one behind the other."""
    links, shares = np.empty(total, np.int64), np.empty(total)
    at = 0
    for k in range(len(kind)):
        for h in range(ptr[kind[k]], ptr[kind[k] + 1]):
            links[at] = link[h]
            shares[at] = share[h]
            at += 1
    return links, shares


@kernel
def add_bytes(
    nbytes: Ints, ptr: Ints, link: Ints, share: Floats, kind: Kinds, carried: Floats
) -> None:
    """Add the bytes times share of each flow to its links, flow by flow."""
    for k in range(len(kind)):
        size = float(nbytes[kind[k]])
        for h in range(ptr[kind[k]], ptr[kind[k] + 1]):
            carried[link[h]] += size * share[h]


@kernel
def find_kinds(one: Ints, two: Ints, three: Ints, four: Ints) -> tuple[Kinds, Ints]:
    """Return the kind of each row of four columns, and the first row of each kind.

    Kinds are numbered in the order of their first rows. Where hardly any two rows are alike, each
    is of a kind of its own.
    """
    n = len(one)
    kind, first = np.empty(n, np.int32), np.empty(n, np.int64)
    table = np.zeros(1024, np.int32)  # kinds plus one, by a hash of their columns
    kinds = 0
    for k in range(n):
        if k == TRIED and 2 * kinds > k:
            return np.arange(n).astype(np.int32), np.arange(n)
        if 2 * kinds >= len(table):
            table = np.zeros(4 * len(table), np.int32)
            for known in range(kinds):
                row = first[known]
                slot = _slot(one[row], two[row], three[row], four[row], len(table) - 1)
                while table[slot] > 0:
                    slot = (slot + 1) & (len(table) - 1)
                table[slot] = known + 1
        slot = _slot(one[k], two[k], three[k], four[k], len(table) - 1)
        while table[slot] > 0:
            row = first[table[slot] - 1]
            if (
                one[row] == one[k]
                and two[row] == two[k]
                and three[row] == three[k]
                and four[row] == four[k]
            ):
                break
            slot = (slot + 1) & (len(table) - 1)
        if table[slot] == 0:
            first[kinds] = k
            kinds += 1
            table[slot] = kinds
        kind[k] = table[slot] - 1
    return kind, first[:kinds].copy()


@inner_kernel
def _slot(one: int, two: int, three: int, four: int, mask: int) -> int:
    """Return the first place in a hash table for a row."""
    word = one
    for more in (two, three, four):
        word = (word * 0x9E3779B1 + more) & 0x7FFFFFFF
        word ^= word >> 15
    return word & mask
