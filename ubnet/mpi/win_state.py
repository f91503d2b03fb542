"""What a window's handle stands for: its memory, its members, its epochs and open accesses."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ubnet.errors import OutsideWindow
from ubnet.message import Pending
from ubnet.rank import current
from ubnet.window import Window

from .communicator import Communicator
from .constants import PROC_NULL
from .exception import ERR_RANK, ERR_RMA_RANGE, ERR_RMA_SYNC, ERR_WIN
from .exception import Exception as MPIException
from .handle import HandleMethods
from .operation import Operation

EPOCHS_AT_ONCE = 32
"""Epochs that a rank may open at one instant before each takes time: assumed."""


class UnderWay(NamedTuple):
    """An access that nobody has completed yet: its end at the origin, and the whole."""

    local: Pending
    operation: Operation


@dataclass(slots=True, eq=False)
class WinState:
    """A window as one rank sees it.

    Attributes
    ----------
    comm : Communicator
        A communicator of the window's own, for its barriers and words.
    window : Window
        The window of the ranks' world.
    memory : memoryview
        What this rank exposes.
    flavor : int
        How it was made.
    sizes, units : list of int
        Bytes and displacement unit of each member.
    segments : list of memoryview
        The memory of all members where they share it, else none.
    name : str
        What the program calls it.
    hints : dict of str to str
        What it was given as info.
    fenced, locked_all : bool
        Whether a fence has opened it, whether everybody is locked.
    locked, started : set of int
        The members that are locked, and those that `Start` has reached.
    posted : list of Pending or None
        The words that end the exposure that `Post` began.
    epochs_now : int
        How many locks in a row this rank has asked for without time passing by itself.
    epoch_ps : int
        The instant of the last of them.
    """

    comm: Communicator
    window: Window
    memory: memoryview
    flavor: int
    sizes: list[int]
    units: list[int]
    segments: list[memoryview] = field(default_factory=list)
    name: str = ""
    hints: dict[str, str] = field(default_factory=dict)
    fenced: bool = False
    locked_all: bool = False
    locked: set[int] = field(default_factory=set)
    started: list[int] | None = None
    posted: list[Pending] | None = None
    epochs_now: int = 0
    epoch_ps: int = -1
    _under_way: dict[int, list[UnderWay]] = field(default_factory=dict)

    def world(self, target: int) -> int:
        """Return the world rank of a member; PROC_NULL stays."""
        if target != PROC_NULL and not 0 <= target < self.comm.size:
            raise MPIException(ERR_RANK, f"rank {target} of a window of {self.comm.size} members")
        return self.comm.world(target)

    def check_open(self, target: int) -> None:
        """Raise an error of class ERR_RMA_SYNC unless this rank may reach a member now."""
        started = self.started or ()
        if self.fenced or self.locked_all or target in self.locked or target in started:
            return
        raise MPIException(
            ERR_RMA_SYNC,
            f"an access to rank {target} outside of an epoch: call Fence, Start, Lock or Lock_all",
        )

    def track(self, target: int, local: Pending, operation: Operation) -> None:
        """Note an access, for whoever completes it."""
        self._under_way.setdefault(target, []).append(UnderWay(local, operation))

    def begin_epoch(self) -> None:
        """Let time pass for a rank that locks and unlocks its own memory on and on.

        That takes no time, and a program that looks that way for what others will do would never
        see it: from the 33rd epoch of an instant on each takes a poll step.
        """
        rank = current()
        again = self.epochs_now > EPOCHS_AT_ONCE
        self.epochs_now = self.epochs_now + 1 if rank.now_ps == self.epoch_ps else 1
        if self.epochs_now > EPOCHS_AT_ONCE:
            rank.pause(again=again)
        self.epoch_ps = rank.now_ps

    def complete(self, targets: Sequence[int] | None = None, *, local: bool = False) -> None:
        """Wait for the accesses to some members, or to all; with `local` for their buffers only."""
        chosen = sorted(self._under_way) if targets is None else targets
        ours = {t: self._under_way.pop(t) for t in chosen if t in self._under_way}
        flat = [access for accesses in ours.values() for access in accesses]
        if local:
            wait([access.local for access in flat])
        else:
            wait([pending for access in flat for pending in access.operation.pendings])
        for target, accesses in ours.items():
            left = [access for access in accesses if not access.operation.done]
            if left:
                self._under_way[target] = left
        for access in flat:
            if access.operation.done:
                access.operation.end(None)


def wait(pendings: Sequence[Pending]) -> None:
    """Wait for all operations; an access outside of its window is an error of MPI.

    Of none nothing is asked: a program that flushes its own memory in a loop has no success so.
    """
    if not pendings:
        return
    try:
        current().wait(pendings, "all")
    except OutsideWindow as error:
        raise MPIException(ERR_RMA_RANGE, str(error)) from None


class WinHandle(HandleMethods):
    """A handle of a window: what all kinds of calls on it need."""

    __slots__ = ()

    @property
    def _here(self) -> WinState:
        if self._ref is None:
            raise MPIException(ERR_WIN, "the window is WIN_NULL")
        here: WinState = self._ref
        return here
