"""A window: memory that ranks expose to each other's one-sided accesses, as one rank sees it."""

from collections.abc import Sequence

from ubnet.access import ATOMIC, EVERYBODY, GET, PUT, Access, Lock, Reach, Unlock
from ubnet.exposure import Exposure
from ubnet.message import LOCK, REACH, UNLOCK, Buffer, Pending
from ubnet.phantom import Phantom
from ubnet.rank import Rank


class Window:
    """One rank's view of a window. Members make it together, and agree on when they do.

    Parameters
    ----------
    rank : Rank
        Whose view it is.
    number : int
        The window's number, the same at all members and no other window's.
    members : sequence of int
        World ranks of the members.
    exposure : Exposure
        What this rank exposes.
    sure : bool
        Whether every access waits for the word of its target: where the target alone knows
        what is exposed, or where members read each other's memory directly.

    Examples
    --------
    >>> import numpy as np
    >>> import ubnet
    >>> from ubnet.rank import current
    >>> def main(comm):
    ...     memory = np.zeros(8, np.uint8)
    ...     window = Window(current(), 1, (0, 1), Exposure(memory))
    ...     comm.Barrier()
    ...     if comm.rank == 0:
    ...         left, whole = window.access(1, Access(2, 3, data=b"abc"))
    ...         current().wait([whole])
    ...     comm.Barrier()
    ...     return memory.tobytes()
    >>> ubnet.run(main, ranks=2).values[1]
    b'\\x00\\x00abc\\x00\\x00\\x00'
    """

    def __init__(
        self,
        rank: Rank,
        number: int,
        members: Sequence[int],
        exposure: Exposure,
        *,
        sure: bool = False,
    ) -> None:
        self._rank = rank
        self._home = members[0]
        self._sure = sure
        self.number = number
        self.exposure = exposure
        rank.host.exposures.expose(number, rank.number, exposure)

    def __repr__(self) -> str:
        return f"<Window {self.number} at rank {self._rank.number}>"

    def access(
        self, target: int, access: Access, into: Buffer | Phantom | None = None, call: str = ""
    ) -> tuple[Pending, Pending]:
        """Start an access to the memory of a world rank.

        Parameters
        ----------
        target : int
            World rank of a member.
        access : Access
            What it does.
        into : buffer, Phantom or None
            Where what it fetches goes; None keeps it in the ``data`` of the operation.
        call : str
            What reports call it.

        Returns
        -------
        local, whole : Pending
            When the origin's buffers are free again, and when it has taken effect.
        """
        way = GET if access.data is None else ATOMIC if access.fetch else PUT
        whole = self._rank.begin(call or way, target, self.number)
        local = whole
        if way == PUT:
            local = self._rank.begin(call or way, target, self.number)
        host, origin = self._rank.host, self._rank.number
        whole.data = into
        wire = host.exposures.send(origin, whole.number, target, access)
        reach = Reach(
            origin,
            whole.number,
            REACH,
            local.number if way == PUT else -1,
            self.number,
            target,
            way,
            access.brings,
            access.touched if access.fetch else 0,
            access.ordered,
            access.fetch or self._sure,
            wire,
        )
        host.post(reach, whole)
        if way == PUT:
            self._rank.open[local.number] = local
        return local, whole

    def lock(self, target: int = EVERYBODY, *, exclusive: bool = False) -> Pending:
        """Ask for the lock of a member, or for that of everybody; it is held when it has ended."""
        pending = self._rank.begin("lock", target, self.number)
        home = self._home if target == EVERYBODY else target
        origin = self._rank.number
        post = Lock(origin, pending.number, LOCK, self.number, target, exclusive, home)
        self._rank.host.post(post, pending)
        return pending

    def unlock(self, target: int = EVERYBODY) -> Pending:
        """Give a lock back; the accesses under it must have ended."""
        pending = self._rank.begin("unlock", target, self.number)
        home = self._home if target == EVERYBODY else target
        post = Unlock(self._rank.number, pending.number, UNLOCK, self.number, target, home)
        self._rank.host.post(post, pending)
        return pending

    def close(self) -> None:
        """Expose nothing any more; no access may be under way."""
        self._rank.host.exposures.withdraw(self.number, self._rank.number)
