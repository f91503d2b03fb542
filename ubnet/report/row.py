"""One measured line: what ``--json`` prints and what a table shows."""

from dataclasses import dataclass, fields
from typing import Any, Self

from ubnet.units import PS_PER_US


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One result of a bench.

    Attributes
    ----------
    op : str
        Canonical name of the operation, such as ``all_reduce``.
    case : str
        What else tells rows of one operation apart: ``read near``, ``ep32``, ``4096 tokens``.
    algorithm, transport, plane : str
        How it was done.
    ranks : int
        Ranks that took part.
    size_bytes : int
        S, the bytes that the bandwidths are counted on.
    time_us : float
        The last rank's end minus the common start, in microseconds of virtual time.
    algbw_GBps, busbw_GBps : float or None
        S / time, and the same times the operation's factor, in 1e9 bytes/s; None where it took
        no time.
    wrong : int or None
        Elements that differ from what they must be; None where no bytes were moved.
    efficiency : float
        The lower bound of the time over the time.
    busiest_link : str
        The resource with the highest utilisation.
    busiest_link_utilisation : float
        Bytes it carried, over what it could have carried in that time.
    in_place : bool
        Whether it can be done with input and output in one array, in the same time.
    wrong_in_place : int or None
        As `wrong`, of the run in place.
    count, dtype, redop, root : int, str, str, int
        The columns of nccl-tests that only a table shows: elements, their type, the reduction
        (``none`` where there is none) and the root (-1 where there is none).
    note : str
        What a table adds at the end of the line, such as how to run it with real bytes.
    """

    op: str
    case: str = ""
    algorithm: str = ""
    transport: str
    plane: str
    ranks: int
    size_bytes: int
    time_us: float
    algbw_GBps: float | None
    busbw_GBps: float | None
    wrong: int | None
    efficiency: float
    busiest_link: str
    busiest_link_utilisation: float
    in_place: bool = False
    wrong_in_place: int | None = None
    count: int = 0
    dtype: str = ""
    redop: str = "none"
    root: int = -1
    note: str = ""

    @classmethod
    def timed(cls, time_ps: int, size_bytes: int, factor: float = 1.0, **rest: Any) -> Self:
        """Return a row with time and bandwidths worked out from picoseconds and bytes.

        Parameters
        ----------
        time_ps, size_bytes : int
            The virtual time, and S.
        factor : float
            Bus bandwidth over algorithm bandwidth.
        **rest
            The other fields.

        Examples
        --------
        >>> row = Row.timed(2_000_000, 8000, 0.5, op="all_to_all", transport="aiv", plane="ub",
        ...     ranks=2, wrong=0, efficiency=1, busiest_link="", busiest_link_utilisation=0)
        >>> row.time_us, row.algbw_GBps, row.busbw_GBps
        (2.0, 4.0, 2.0)
        """
        rate = size_bytes * 1e3 / time_ps if time_ps else None
        return cls(
            size_bytes=size_bytes,
            time_us=time_ps / PS_PER_US,
            algbw_GBps=rate,
            busbw_GBps=None if rate is None else rate * factor,
            **rest,
        )

    def record(self) -> dict[str, Any]:
        """Return the fields that ``--json`` prints, in their order.

        Those that only a table shows are left out.
        """
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in TABLE_ONLY}


TABLE_ONLY = ("in_place", "wrong_in_place", "count", "dtype", "redop", "root", "note")
"""The fields of a `Row` that ``--json`` leaves out."""
