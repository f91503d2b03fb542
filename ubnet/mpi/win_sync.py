"""Synchronisation of a window: fences, post and start, locks, flushes."""

from typing import Literal

from ubnet.message import Pending
from ubnet.rank import current

from .buffer_collectives import barrier
from .constants import (
    LOCK_EXCLUSIVE,
    LOCK_SHARED,
    MODE_NOCHECK,
    MODE_NOSUCCEED,
    PROC_NULL,
)
from .exception import ERR_GROUP, ERR_LOCKTYPE, ERR_RMA_SYNC
from .exception import Exception as MPIException
from .group import Group
from .win_state import WinHandle, WinState, wait

OPENED, DONE = 0, 1
"""Tags of the words between `Post` and `Start`, and between `Complete` and `Wait`."""


class WinSync(WinHandle):
    """When accesses may be made, and when they have been.

    A fence is a barrier of the window's members. Post, start, complete and wait are words of no
    bytes from rank to rank. A lock is asked of its target; that of everybody of the first member.
    """

    __slots__ = ()

    def Fence(self, assertion: int = 0) -> None:
        """End the accesses of the epoch, wait for all members, and begin the next epoch."""
        here = self._here
        here.complete()
        barrier(here.comm).run("Win.Fence")
        here.fenced = not assertion & MODE_NOSUCCEED

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begin to access the members of a group; wait until they have posted."""
        here = self._here
        if here.started is not None:
            raise MPIException(ERR_RMA_SYNC, "Start: the epoch before has not been completed")
        members = _members(here, group)
        if not assertion & MODE_NOCHECK:
            wait([_hear(here, member, OPENED) for member in members])
        here.started = members

    def Complete(self) -> None:
        """End the accesses that `Start` began."""
        here = self._here
        if here.started is None:
            raise MPIException(ERR_RMA_SYNC, "Complete without Start")
        members, here.started = here.started, None
        here.complete(members)
        wait([_tell(here, member, DONE) for member in members])

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Let the members of a group access this rank's memory."""
        here = self._here
        if here.posted is not None:
            raise MPIException(ERR_RMA_SYNC, "Post: the exposure before has not ended")
        members = _members(here, group)
        here.posted = [_hear(here, member, DONE) for member in members]
        if not assertion & MODE_NOCHECK:
            for member in members:
                _tell(here, member, OPENED)

    def Wait(self) -> Literal[True]:
        """Wait until all whom `Post` has let in have completed."""
        wait(_posted(self._here))
        self._here.posted = None
        return True

    def Test(self) -> bool:
        """Return whether all whom `Post` has let in have completed; if not, time passes."""
        ended = current().test(_posted(self._here), "all") is not None
        if ended:
            self._here.posted = None
        return ended

    def Lock(self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0) -> None:
        """Begin to access a member; an exclusive lock keeps all others away."""
        here = self._here
        world = here.world(rank)
        if lock_type not in (LOCK_EXCLUSIVE, LOCK_SHARED):
            raise MPIException(
                ERR_LOCKTYPE, f"lock type {lock_type}; give LOCK_EXCLUSIVE or LOCK_SHARED"
            )
        if world == PROC_NULL:
            return
        if rank in here.locked or here.locked_all:
            raise MPIException(ERR_RMA_SYNC, f"Lock: rank {rank} is locked already")
        here.begin_epoch()
        wait([here.window.lock(world, exclusive=lock_type == LOCK_EXCLUSIVE)])
        here.locked.add(rank)

    def Unlock(self, rank: int) -> None:
        """End the accesses to a member, and its lock."""
        here = self._here
        world = here.world(rank)
        if world == PROC_NULL:
            return
        if rank not in here.locked:
            raise MPIException(ERR_RMA_SYNC, f"Unlock: rank {rank} is not locked")
        here.complete([rank])
        wait([here.window.unlock(world)])
        here.locked.remove(rank)

    def Lock_all(self, assertion: int = 0) -> None:
        """Begin to access all members, which keeps exclusive locks away."""
        here = self._here
        if here.locked or here.locked_all:
            raise MPIException(ERR_RMA_SYNC, "Lock_all: there are locks already")
        here.begin_epoch()
        wait([here.window.lock()])
        here.locked_all = True

    def Unlock_all(self) -> None:
        """End the accesses to all members, and their lock."""
        here = self._here
        if not here.locked_all:
            raise MPIException(ERR_RMA_SYNC, "Unlock_all without Lock_all")
        here.complete()
        wait([here.window.unlock()])
        here.locked_all = False

    def Flush(self, rank: int) -> None:
        """Wait until the accesses to a member have taken effect."""
        self._flush(rank, local=False)

    def Flush_all(self) -> None:
        """Wait until all accesses have taken effect."""
        self._flush(None, local=False)

    def Flush_local(self, rank: int) -> None:
        """Wait until the buffers of the accesses to a member are free."""
        self._flush(rank, local=True)

    def Flush_local_all(self) -> None:
        """Wait until the buffers of all accesses are free."""
        self._flush(None, local=True)

    def Sync(self) -> None:
        """Look at the memory anew; a program that waits for a change calls it in its loop."""
        _ = self._here
        current().pause()

    def _flush(self, rank: int | None, *, local: bool) -> None:
        here = self._here
        if rank is not None and here.world(rank) == PROC_NULL:
            return
        if not here.locked_all and (not here.locked if rank is None else rank not in here.locked):
            where = "any rank" if rank is None else f"rank {rank}"
            raise MPIException(ERR_RMA_SYNC, f"a flush of {where}, which is not locked")
        here.complete(None if rank is None else [rank], local=local)


def _members(here: WinState, group: Group) -> list[int]:
    try:
        return [here.comm.place[world] for world in group._members]
    except KeyError:
        raise MPIException(ERR_GROUP, "a member of the group has no part in the window") from None


def _posted(here: WinState) -> list[Pending]:
    if here.posted is None:
        raise MPIException(ERR_RMA_SYNC, "there was no Post")
    return here.posted


def _tell(here: WinState, member: int, tag: int) -> Pending:
    return current().isend(here.comm.group[member], tag, here.comm.context, b"")


def _hear(here: WinState, member: int, tag: int) -> Pending:
    return current().irecv(here.comm.group[member], tag, here.comm.context)
