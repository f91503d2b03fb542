"""Scans: what the members up to this one, or before it, have combined."""

from functools import partial
from typing import Any

from . import schedules
from .buffer_reductions import SUM, agreed, combining, operand
from .buffers import read_spec
from .call import Call, forms
from .communicator import CommHandle
from .object_collectives import Combine, gather, scatter
from .op import Op


class Scans(CommHandle):
    """Scans of buffers, and of Python objects."""

    __slots__ = ()

    def _Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Call:
        """Combine the elements of the members up to this one."""
        return self._prefix(sendbuf, recvbuf, op, inclusive=True)

    def _Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Call:
        """Combine the elements of the members before this one."""
        return self._prefix(sendbuf, recvbuf, op, inclusive=False)

    def _prefix(self, sendbuf: Any, recvbuf: Any, op: Op, *, inclusive: bool) -> Call:
        here = self._here
        spec = read_spec(recvbuf, writable=True)
        source = operand(sendbuf, spec)
        maker = partial(schedules.prefix, count=source.count, inclusive=inclusive)
        agree = (("count", source.count), *agreed(source, op))
        output = spec.elements() if inclusive or here.rank else None
        return combining(here, agree, maker, source, output, op)

    Scan, Iscan, Scan_init = forms(_Scan)
    Exscan, Iexscan, Exscan_init = forms(_Exscan)

    def scan(self, sendobj: Any, op: Combine = SUM) -> Any:
        """Return the objects of the members up to this one combined: worked out at member 0."""
        here = self._here
        items = gather(here, sendobj, 0, "scan")
        return scatter(here, _prefixes(items, op), 0, "scan")

    def exscan(self, sendobj: Any, op: Combine = SUM) -> Any:
        """Return the objects of the members before this one combined, None at member 0."""
        here = self._here
        items = gather(here, sendobj, 0, "exscan")
        prefixes = _prefixes(items, op)
        if prefixes is not None:
            prefixes = [None, *prefixes[:-1]]
        return scatter(here, prefixes, 0, "exscan")


def _prefixes(items: list[Any] | None, op: Combine) -> list[Any] | None:
    if items is None:
        return None
    for place in range(1, len(items)):
        items[place] = op(items[place - 1], items[place])
    return items
