"""The passages of a world's transfers, made when they are first asked for, many at once if it can.

Working out a thousand of them together costs as much as working out two one by one.
"""

from collections.abc import Iterable

import numpy as np

from ubnet.errors import NoRoute
from ubnet.fabric import Fabric, Ints
from ubnet.idle_time import choose_transport, idle_times
from ubnet.passage import Passage
from ubnet.transport import Transport

AUTO = "auto"
FEW = 4
"""So many are made one by one."""
MOST_KEPT = 100_000
"""A bound on memory, some 200 MB; what is forgotten is made again."""

Key = tuple[int, int, int, str]


class Passages(dict[Key, Passage]):
    """Passages by source and destination endpoint, bytes, and ``read`` or ``write``.

    Parameters
    ----------
    fabric : Fabric
        What the transfers travel on.
    transport : str
        A transport's name, or ``auto`` for the least modelled time of each transfer.

    Raises
    ------
    NoRoute
        Where one is asked for and there is no way for it.
    """

    def __init__(self, fabric: Fabric, transport: str = AUTO) -> None:
        self._fabric = fabric
        self._transport = transport
        self._plane = next(iter(fabric.planes))

    def __missing__(self, key: Key) -> Passage:
        src, dst, nbytes, op = key
        transport = self._choose(src, dst, nbytes, op)
        made = Passage.of(self._fabric, transport, op, src, dst, nbytes)
        self._keep({key: made})
        return made

    def prepare(self, keys: Iterable[Key]) -> None:
        """Make the passages of transfers that are to come; those without a way are left out."""
        new = [key for key in dict.fromkeys(keys) if key not in self]
        if len(new) <= FEW:
            return
        for op in sorted({key[3] for key in new}):
            rows = [key for key in new if key[3] == op]
            try:
                self._keep(self._many(rows, op))
            except NoRoute:  # of one of them; who asks for that one is told
                continue

    def _choose(self, src: int, dst: int, nbytes: int, op: str) -> Transport:
        if self._transport != AUTO:
            return self._fabric.transport(self._transport)
        return choose_transport(self._fabric, src, dst, nbytes, op, self._plane)[0]

    def _many(self, keys: list[Key], op: str) -> dict[Key, Passage]:
        src, dst, nbytes = np.array([key[:3] for key in keys], dtype=np.int64).T
        fabric = self._fabric
        if self._transport != AUTO:
            ways = [fabric.transport(self._transport)]
        else:
            ways = fabric.automatic_transports(self._plane)
        times = np.stack([idle_times(fabric, way, src, dst, nbytes, op) for way in ways])
        best: Ints = np.argmin(times, axis=0)  # of equal ones the first
        made: dict[Key, Passage] = {}
        for number, way in enumerate(ways):
            rows = np.flatnonzero(best == number)
            if len(rows):
                flows = way.flows(fabric, op, src[rows], dst[rows], nbytes[rows])
                passages = Passage.of_each(fabric, flows)
                made.update(zip([keys[row] for row in rows.tolist()], passages, strict=True))
        return made

    def _keep(self, made: dict[Key, Passage]) -> None:
        if len(self) + len(made) > MOST_KEPT:
            self.clear()
        self.update(made)
