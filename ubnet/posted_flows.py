"""Flows in columns, as they are posted: each column checked for its type and its length.

The functions that take flows (`simulate_flows`, `FlowSim.post`, `lower_bounds`) spell the columns
out for those who call them; what is left out, and what is refused, stands here once.
"""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.column import integers, kinds, pointers, reals, truths
from ubnet.compressed_rows import take_rows
from ubnet.errors import FlowError

# What stands for a column that is left out; made once, because most posts leave most of them out.
NONE = np.zeros(0, np.int64)
ITS_OWN = np.zeros(0, np.int32)  # kinds: each flow has its own row
ZERO = np.zeros(1, np.int64)
ONE = np.ones(1)
NO_CAP = np.full(1, np.inf)
FALSE = np.zeros(1, np.bool_)


class PostedFlows(NamedTuple):
    """The columns of `simulate_flows` and of `FlowSim.post`, in the order the kernels take them.

    A column of one row stands for all flows. An empty ``dep_ptr`` says that no flow waits for
    another, an empty ``kind`` that each flow has its own row of the columns.
    """

    start_ps: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    route_ptr: NDArray[np.int64]
    route_link: NDArray[np.int64]
    route_share: NDArray[np.float64]
    weight: NDArray[np.float64]
    rate_cap: NDArray[np.float64]
    dep_ptr: NDArray[np.int64]
    dep: NDArray[np.int64]
    startup_ps: NDArray[np.int64]
    gate: NDArray[np.bool_]
    kind: NDArray[np.int32]
    watch: NDArray[np.bool_]

    @classmethod
    def read(
        cls,
        start_ps: "ArrayLike | None",
        nbytes: "ArrayLike",
        route_ptr: "ArrayLike",
        route_link: "ArrayLike",
        route_share: "ArrayLike | None" = None,
        weight: "ArrayLike | None" = None,
        rate_cap: "ArrayLike | None" = None,
        dep_ptr: "ArrayLike | None" = None,
        dep: "ArrayLike | None" = None,
        startup_ps: "ArrayLike | None" = None,
        gate: "ArrayLike | None" = None,
        kind: "ArrayLike | None" = None,
        watch: "ArrayLike | None" = None,
        now_ps: int = 0,
    ) -> Self:
        """Take columns as a caller gives them; without any starts flows start at ``now_ps``.

        Raises
        ------
        FlowError
            For a column of a wrong type or length.
        """
        links = integers("route_link", route_link)
        ptr = pointers("route_ptr", route_ptr, None, len(links))
        rows = len(ptr) - 1
        kind_of = ITS_OWN if kind is None else kinds(kind, rows)
        n = rows if kind is None else len(kind_of)
        deps = NONE if dep is None else integers("dep", dep)
        if dep_ptr is None and len(deps):
            raise FlowError(f"dep has {len(deps)} entries but dep_ptr is not given; give both")
        return cls(
            np.array([now_ps]) if start_ps is None else integers("start_ps", start_ps, rows),
            integers("nbytes", nbytes, rows),
            ptr,
            links,
            ONE if route_share is None else reals("route_share", route_share, len(links)),
            ONE if weight is None else reals("weight", weight, rows),
            NO_CAP if rate_cap is None else reals("rate_cap", rate_cap, rows),
            NONE if dep_ptr is None else pointers("dep_ptr", dep_ptr, n, len(deps)),
            deps,
            ZERO if startup_ps is None else integers("startup_ps", startup_ps, rows),
            FALSE if gate is None else truths("gate", gate, len(deps)),
            kind_of,
            FALSE if watch is None else truths("watch", watch, n),
        )

    @property
    def size(self) -> int:
        """How many flows there are."""
        return len(self.kind) or len(self.route_ptr) - 1

    @property
    def hops(self) -> int:
        """How many links they cross, all together."""
        if len(self.kind):
            return int(np.diff(self.route_ptr)[self.kind].sum())
        return len(self.route_link)

    def in_full(self) -> Self:
        """Return the same flows with a row each in every column."""
        rows, links = len(self.route_ptr) - 1, len(self.route_link)
        deps = len(self.dep)
        full = self._replace(
            start_ps=_filled(self.start_ps, rows),
            nbytes=_filled(self.nbytes, rows),
            route_share=_filled(self.route_share, links),
            weight=_filled(self.weight, rows),
            rate_cap=_filled(self.rate_cap, rows),
            dep_ptr=self.dep_ptr if len(self.dep_ptr) else np.zeros(self.size + 1, np.int64),
            startup_ps=_filled(self.startup_ps, rows),
            gate=_filled(self.gate, deps),
            watch=_filled(self.watch, self.size),
        )
        return full._each_its_own() if len(self.kind) else full

    def _each_its_own(self) -> Self:
        """Return the same flows with no kinds: each has its own row of columns that are full."""
        route_ptr, stops = take_rows(self.route_ptr, self.kind.astype(np.int64))
        return self._replace(
            start_ps=self.start_ps[self.kind],
            nbytes=self.nbytes[self.kind],
            route_ptr=route_ptr,
            route_link=self.route_link[stops],
            route_share=self.route_share[stops],
            weight=self.weight[self.kind],
            rate_cap=self.rate_cap[self.kind],
            startup_ps=self.startup_ps[self.kind],
            kind=ITS_OWN,
        )


def _filled(column: NDArray[Any], n: int) -> NDArray[Any]:
    return column if len(column) == n else np.full(n, column)


def check_names(caller: str, like: Callable[..., Any], columns: Mapping[str, Any]) -> None:
    """Refuse columns that another function does not take, or lacks, in the caller's name.

    Raises
    ------
    TypeError
        As Python does where a function is called with such arguments.
    """
    try:
        signature(like).bind(capacity=None, **columns)
    except TypeError as error:
        raise TypeError(f"{caller}() {error}") from None
