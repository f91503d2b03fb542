"""Which operations there are, by which algorithms, and how their figures are counted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ubnet.errors import OptionError, ScheduleError, did_you_mean
from ubnet.schedule import Schedule

from . import (
    all_gather,
    all_gather_v,
    all_reduce,
    all_to_all,
    all_to_all_v,
    barrier,
    broadcast,
    gather,
    gather_v,
    neighbor_all_gather,
    neighbor_all_to_all,
    reduce,
    reduce_scatter,
    reduce_scatter_v,
    scan,
    scatter,
    scatter_v,
    send_recv,
)


@dataclass(frozen=True)
class Operation:
    """A collective operation.

    Attributes
    ----------
    name : str
        Its canonical name.
    algorithms : mapping of str to callable
        What builds its schedule, the default one first.
    busbw : {"1", "(n-1)/n", "2(n-1)/n"}
        Factor from algorithm bandwidth to bus bandwidth, as nccl-tests counts it.
    rooted : bool
        Whether it has a root.
    reduces : bool
        Whether it combines elements.
    blocks : bool
        Whether the array S of a table is `ranks` times the count: the count is then that of a
        rank's block or of a peer, else that of the whole array.
    commutative_only : tuple of str
        Algorithms that do not keep the rank order of the operands.
    chunked : tuple of str
        Algorithms that take `chunks`.
    uneven : {"", "pairs", "ranks"}
        Whether the ranks have different counts: for every pair, or for every rank.
    apart : tuple of str
        Algorithms that need an output apart from the input: a rank's input may be overwritten
        before it was sent.
    leveled : bool
        Whether ``hierarchical`` is among the algorithms, and takes a grid.
    """

    name: str
    algorithms: Mapping[str, Callable[..., Schedule]]
    busbw: str = "1"
    rooted: bool = False
    reduces: bool = False
    blocks: bool = False
    commutative_only: tuple[str, ...] = ()
    chunked: tuple[str, ...] = ()
    uneven: str = ""
    leveled: bool = False
    apart: tuple[str, ...] = ()

    def busbw_factor(self, ranks: int) -> float:
        """Return bus bandwidth over algorithm bandwidth.

        >>> OPERATIONS["all_reduce"].busbw_factor(4)
        1.5
        """
        return {"1": 1.0, "(n-1)/n": (ranks - 1) / ranks, "2(n-1)/n": 2 * (ranks - 1) / ranks}[
            self.busbw
        ]

    def count_of(self, size_bytes: int, ranks: int, itemsize: int) -> int:
        """Return the count for an array S of at most `size_bytes`, rounded down.

        >>> OPERATIONS["all_to_all"].count_of(1 << 20, ranks=768, itemsize=4)
        341
        """
        return size_bytes // (itemsize * (ranks if self.blocks else 1))

    def size_of(self, count: int, ranks: int, itemsize: int) -> int:
        """Return the bytes of the array S that a count really takes.

        >>> OPERATIONS["all_to_all"].size_of(341, ranks=768, itemsize=4)
        1047552
        """
        return count * itemsize * (ranks if self.blocks else 1)

    def algorithm(self, name: str, *, commutative: bool = True) -> Callable[..., Schedule]:
        """Return the builder called `name`.

        Raises
        ------
        ScheduleError
            If there is none, or if it cannot keep the rank order that `commutative` False asks for.
        """
        if name not in self.algorithms:
            hint = did_you_mean(name, self.algorithms)
            raise ScheduleError(f"{self.name} has no algorithm {name!r}; {hint}")
        if not commutative and name in self.commutative_only:
            allowed = ", ".join(self.candidates(commutative=False))
            raise ScheduleError(
                f"{self.name} {name} does not keep the rank order that an operation which is not "
                f"commutative needs; use {allowed}"
            )
        return self.algorithms[name]

    def candidates(self, *, commutative: bool = True) -> tuple[str, ...]:
        """Return the algorithms that an automatic choice may take."""
        return tuple(a for a in self.algorithms if commutative or a not in self.commutative_only)


def operation(name: str) -> Operation:
    """Return the operation called `name`, which may leave out the underscores.

    >>> operation("alltoall").name
    'all_to_all'

    Raises
    ------
    OptionError
        If there is none; the message names the nearest ones.
    """
    for known in OPERATIONS.values():
        if name.lower().replace("_", "") == known.name.replace("_", ""):
            return known
    raise OptionError(f"there is no operation {name!r}; {did_you_mean(name, OPERATIONS)}")


_ALL = (
    Operation("barrier", barrier.ALGORITHMS),
    Operation(
        "broadcast",
        broadcast.ALGORITHMS,
        rooted=True,
        chunked=("ring", "double_tree"),
        leveled=True,
    ),
    Operation(
        "reduce",
        reduce.ALGORITHMS,
        rooted=True,
        reduces=True,
        commutative_only=("ring", "binomial", "double_tree", "hierarchical"),
        chunked=("ring", "double_tree"),
        leveled=True,
    ),
    Operation(
        "all_reduce",
        all_reduce.ALGORITHMS,
        "2(n-1)/n",
        reduces=True,
        commutative_only=tuple(
            name for name in all_reduce.ALGORITHMS if name not in ("mesh", "recursive_doubling")
        ),
        chunked=("ring", "double_tree"),
        leveled=True,
    ),
    Operation(
        "all_gather",
        all_gather.ALGORITHMS,
        "(n-1)/n",
        blocks=True,
        chunked=("ring",),
        leveled=True,
    ),
    Operation(
        "reduce_scatter",
        reduce_scatter.ALGORITHMS,
        "(n-1)/n",
        reduces=True,
        blocks=True,
        commutative_only=tuple(name for name in reduce_scatter.ALGORITHMS if name != "mesh"),
        chunked=("ring",),
        leveled=True,
    ),
    Operation("gather", gather.ALGORITHMS, "(n-1)/n", rooted=True, blocks=True),
    Operation("scatter", scatter.ALGORITHMS, "(n-1)/n", rooted=True, blocks=True),
    Operation(
        "all_to_all",
        all_to_all.ALGORITHMS,
        "(n-1)/n",
        blocks=True,
        leveled=True,
        apart=("mesh", "pairwise"),
    ),
    Operation("scan", scan.ALGORITHMS, reduces=True),
    Operation(
        "exscan",
        scan.EXCLUSIVE_ALGORITHMS,
        reduces=True,
        apart=tuple(scan.EXCLUSIVE_ALGORITHMS),
    ),
    Operation("send_recv", send_recv.ALGORITHMS, apart=tuple(send_recv.ALGORITHMS)),
    Operation(
        "all_to_all_v",
        all_to_all_v.ALGORITHMS,
        "(n-1)/n",
        blocks=True,
        uneven="pairs",
        apart=tuple(all_to_all_v.ALGORITHMS),
    ),
    Operation("all_gather_v", all_gather_v.ALGORITHMS, "(n-1)/n", blocks=True, uneven="ranks"),
    Operation(
        "reduce_scatter_v",
        reduce_scatter_v.ALGORITHMS,
        "(n-1)/n",
        reduces=True,
        blocks=True,
        commutative_only=tuple(name for name in reduce_scatter_v.ALGORITHMS if name != "mesh"),
        uneven="ranks",
    ),
    Operation("gather_v", gather_v.ALGORITHMS, "(n-1)/n", rooted=True, blocks=True, uneven="ranks"),
    Operation(
        "scatter_v", scatter_v.ALGORITHMS, "(n-1)/n", rooted=True, blocks=True, uneven="ranks"
    ),
)

OPERATIONS: dict[str, Operation] = {known.name: known for known in _ALL}

NEIGHBOURHOODS: dict[str, Mapping[str, Callable[..., Schedule]]] = {
    "neighbor_all_gather": neighbor_all_gather.ALGORITHMS,
    "neighbor_all_to_all": neighbor_all_to_all.ALGORITHMS,
}
"""The operations among neighbours, and their algorithms: a topology says who these are."""
