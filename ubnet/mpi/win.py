"""Windows: memory that ranks open to each other's one-sided accesses."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ubnet.exposure import Exposure
from ubnet.rank import current
from ubnet.window import Window

from .attributes import Attributes
from .buffer_collectives import barrier
from .comm import COMM_SELF, Intracomm
from .communicator import found, ticket
from .constants import (
    MAX_OBJECT_NAME,
    PROC_NULL,
    WIN_BASE,
    WIN_CREATE_FLAVOR,
    WIN_DISP_UNIT,
    WIN_FLAVOR_ALLOCATE,
    WIN_FLAVOR_CREATE,
    WIN_FLAVOR_DYNAMIC,
    WIN_FLAVOR_SHARED,
    WIN_MODEL,
    WIN_SIZE,
    WIN_UNIFIED,
)
from .errhandler import ErrorHandling
from .exception import ERR_DISP, ERR_RMA_ATTACH, ERR_RMA_FLAVOR, ERR_RMA_SYNC, ERR_SIZE
from .exception import Exception as MPIException
from .group import Group
from .info import INFO_NULL, Info
from .memory import NOTHING, buffer, memory_of
from .octets import Octets
from .win_access import WinAccess
from .win_memory import address_of, allocated, octets, shared_segments
from .win_state import WinState
from .win_sync import WinSync


class Win(WinAccess, WinSync, Attributes, ErrorHandling, Octets):
    """A window: a part of each member's memory that the others may access.

    ``memoryview(win)`` shows this rank's.
    """

    __slots__ = ("_name", "_ref")

    __len__ = __iter__ = __getitem__ = __setitem__ = None  # type: ignore[assignment]  # no array

    @classmethod
    def _of(cls, ref: WinState | None, name: str = "") -> Self:
        memory = NOTHING if ref is None else ref.memory
        made = np.ndarray.__new__(cls, memory.nbytes, np.uint8, memory)
        made._stand_for(ref, name)
        return made

    @classmethod
    def Create(
        cls,
        memory: Any,
        disp_unit: int = 1,
        info: Info = INFO_NULL,
        comm: Intracomm = COMM_SELF,
    ) -> Self:
        """Open memory of the program.

        Parameters
        ----------
        memory : buffer, BOTTOM or None
            What the others may access; each member gives its own.
        disp_unit : int
            Bytes that a displacement of 1 stands for.
        info : Info, optional
            Hints, which are kept.
        comm : Intracomm
            Whose members make the window together.
        """
        opened = memory_of(memory, True)[0]
        return cls._made("Create", WIN_FLAVOR_CREATE, opened, disp_unit, info, comm)

    @classmethod
    def Allocate(
        cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF
    ) -> Self:
        """Open new memory of `size` bytes."""
        opened = allocated(_check_size(size))
        return cls._made("Allocate", WIN_FLAVOR_ALLOCATE, opened, disp_unit, info, comm)

    @classmethod
    def Allocate_shared(
        cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF
    ) -> Self:
        """Open new memory that the members see directly, too."""
        here, rank = comm._here, current()
        sizes = rank.exchange(here.context, here.group, _check_size(size), "Win.Allocate_shared")
        segments = shared_segments(rank, here, sizes)
        made = cls._made(
            "Allocate_shared", WIN_FLAVOR_SHARED, segments[here.rank], disp_unit, info, comm
        )
        made._here.segments = segments
        return made

    @classmethod
    def Create_dynamic(cls, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """Open no memory yet: `Attach` does; displacements are addresses then."""
        return cls._made("Create_dynamic", WIN_FLAVOR_DYNAMIC, NOTHING, 1, info, comm)

    @classmethod
    def _made(
        cls, call: str, flavor: int, memory: memoryview, unit: int, info: Info, comm: Intracomm
    ) -> Self:
        if unit <= 0:
            raise MPIException(ERR_DISP, f"displacement unit {unit}; give 1 or more")
        here, rank = comm._here, current()
        told = rank.exchange(
            here.context, here.group, (memory.nbytes, unit, ticket(rank)), f"Win.{call}"
        )
        own = found(rank, told[0][2], here.group)
        assert own is not None
        dynamic = flavor == WIN_FLAVOR_DYNAMIC
        exposure = Exposure(None if dynamic else octets(memory))
        sure = dynamic or flavor == WIN_FLAVOR_SHARED
        window = Window(rank, own.context, own.group, exposure, sure=sure)
        sizes, units, _ = zip(*told, strict=True)
        rank.host.labels[own.context] = f"window {own.context}"
        hints = {} if info._ref is None else dict(info.items())
        return cls._of(WinState(own, window, memory, flavor, list(sizes), list(units), hints=hints))

    def Free(self) -> None:
        """Close the window; all members must call, and their accesses must have ended."""
        here = self._here
        if here.locked or here.locked_all or here.started is not None or here.posted is not None:
            raise MPIException(ERR_RMA_SYNC, "Free inside of an epoch")
        here.complete()
        self._drop_attributes()
        barrier(here.comm).run("Win.Free")
        here.window.close()
        self._let_go()

    def Attach(self, memory: Any) -> None:
        """Open memory of the program in a window that `Create_dynamic` made."""
        opened = memory_of(memory, True)[0]
        self._dynamic().exposure.attach(address_of(opened), octets(opened))

    def Detach(self, memory: Any) -> None:
        """Open that memory no longer."""
        address = address_of(memory_of(memory, True)[0])
        if not self._dynamic().exposure.detach(address):
            raise MPIException(ERR_RMA_ATTACH, f"no memory at {address} is attached")

    def Shared_query(self, rank: int) -> tuple[buffer, int]:
        """Return the memory of a member and its displacement unit; of PROC_NULL the first's.

        In a window that is not shared a rank sees its own memory only.
        """
        here = self._here
        if here.flavor == WIN_FLAVOR_DYNAMIC:
            raise MPIException(ERR_RMA_FLAVOR, "a dynamic window has no memory of its own")
        if rank == PROC_NULL:
            rank = next((r for r, size in enumerate(here.sizes) if size), 0)
        here.world(rank)
        if here.flavor == WIN_FLAVOR_SHARED:
            return buffer.frombuffer(here.segments[rank]), here.units[rank]
        seen = here.memory if rank == here.comm.rank else NOTHING
        return buffer.frombuffer(seen), here.units[rank]

    def tomemory(self) -> buffer:
        """Return this rank's memory."""
        return buffer.frombuffer(self._here.memory)

    def Get_group(self) -> Group:
        """Return the group of the members."""
        return Group._of(self._here.comm.group)

    def Get_name(self) -> str:
        """Return the name that the program has given."""
        return self._here.name if self else "MPI_WIN_NULL"

    def Set_name(self, name: str) -> None:
        """Give it a name, which reports use, too."""
        here = self._here
        here.name = name[: MAX_OBJECT_NAME - 1]
        current().host.labels[here.comm.context] = here.name

    def Get_info(self) -> Info:
        """Return the hints that were given."""
        return Info.Create(self._here.hints)

    def Set_info(self, info: Info) -> None:
        """Give it hints, which change nothing here."""
        self._here.hints = dict(info.items())

    info = property(Get_info, Set_info, doc="Its hints.")
    group = property(Get_group, doc="Group of the members.")
    name = property(Get_name, Set_name, doc="Its name.")

    @property
    def group_size(self) -> int:
        """Number of members."""
        return self._here.comm.size

    @property
    def group_rank(self) -> int:
        """Which member this rank is."""
        return self._here.comm.rank

    @property
    def attrs(self) -> tuple[int, int, int]:
        """Base address, size and displacement unit of this rank's memory."""
        here = self._here
        return address_of(here.memory), here.memory.nbytes, here.units[here.comm.rank]

    @property
    def flavor(self) -> int:
        """How it was made: WIN_FLAVOR_CREATE, _ALLOCATE, _DYNAMIC or _SHARED."""
        return self._here.flavor

    @property
    def model(self) -> int:
        """Memory model: there is one copy of all memory."""
        _ = self._here
        return WIN_UNIFIED

    def _predefined_attribute(self, keyval: int) -> int | None:
        """Return WIN_BASE, WIN_SIZE, WIN_DISP_UNIT, WIN_CREATE_FLAVOR or WIN_MODEL."""
        attribute = _ATTRIBUTES.get(keyval)
        return None if attribute is None else attribute(self._here)

    def _owner(self) -> WinState:
        return self._here

    def _dynamic(self) -> Window:
        here = self._here
        if here.flavor != WIN_FLAVOR_DYNAMIC:
            raise MPIException(ERR_RMA_FLAVOR, "only a window of Create_dynamic attaches memory")
        return here.window


Win._kind = Win

WIN_NULL = Win._of(None, "WIN_NULL")

_ATTRIBUTES: dict[int, Callable[[WinState], int]] = {
    WIN_BASE: lambda here: address_of(here.memory),
    WIN_SIZE: lambda here: here.memory.nbytes,
    WIN_DISP_UNIT: lambda here: here.units[here.comm.rank],
    WIN_CREATE_FLAVOR: lambda here: here.flavor,
    WIN_MODEL: lambda here: WIN_UNIFIED,
}


def _check_size(size: int) -> int:
    if size < 0:
        raise MPIException(ERR_SIZE, f"a window of {size} bytes")
    return size
