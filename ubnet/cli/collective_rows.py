"""Rows of collective operations: each is built, timed, run on real bytes and checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.arena import Arena
from ubnet.cli.check import Check
from ubnet.cli.expected import Call, uneven_parts
from ubnet.cli.in_place_run import MOST_BYTES, wrong_in_place
from ubnet.cli.inputs import Numbers, bench_dtype
from ubnet.cli.memory import moves_bytes
from ubnet.cli.notes import WITHOUT_BYTES, long_work
from ubnet.cli.options import Way
from ubnet.cli.sizes import note_empty
from ubnet.cli.tile_memory import TileMemory
from ubnet.cli.tiles import Tile, tiles
from ubnet.collectives.build import build
from ubnet.collectives.registry import OPERATIONS, Operation
from ubnet.msccl_reader import scaled
from ubnet.operation import OUTPUT
from ubnet.report.row import Row
from ubnet.schedule import Schedule
from ubnet.timing import time_schedule
from ubnet.units import format_size


@dataclass(frozen=True)
class Collectives:
    """Measures collective operations on the same ranks; rows may be measured by several threads.

    Attributes
    ----------
    endpoints : ndarray of int64, shape (ranks,)
        Where the ranks sit.
    dtype, payload : str
        Type of an element; ``auto``, ``real`` or ``size``.
    seed, root, chunks : int
        Seed of the numbers, root of rooted operations, chunks of a block.
    given : Schedule or None
        The schedule to take, with one element a chunk, in place of one of our own.
    unused : list of Arena
        Memory that no row uses now.
    """

    endpoints: NDArray[np.int64]
    dtype: str = "float32"
    payload: str = "auto"
    seed: int = 1
    root: int = 0
    chunks: int = 1
    given: Schedule | None = None
    unused: list[Arena] = field(default_factory=list, repr=False)

    def row(self, way: Way, operation: Operation, algorithm: str, size: int) -> Row:
        """Build, time, run and check one operation, and return its row.

        Parameters
        ----------
        way : Way
            Fabric, plane and transport.
        operation : Operation
            What is done.
        algorithm : str
            How; ``auto`` chooses.
        size : int
            S in bytes, rounded down to what the ranks can share.
        """
        dtype = bench_dtype(self.dtype)
        ranks, count = len(self.endpoints), self.count(operation, size)
        parts = uneven_parts(operation.uneven, ranks, count)
        if self.given is None:
            schedule = self._built(way, operation, algorithm, count, parts)
        else:
            schedule = scaled(self.given, self._chunk(operation, count))
        call = Call(operation.name, ranks, count, self.root, parts)
        timing = time_schedule(
            schedule, way.fabric, self.endpoints, dtype.itemsize, way.transport, way.plane
        )
        used = self.used(operation, size)
        note_empty(size, used, f"{operation.name} of {self.dtype} on {ranks} ranks")
        return Row.timed(
            timing.time_ps,
            used,
            operation.busbw_factor(ranks),
            op=operation.name,
            algorithm=schedule.name.removeprefix(f"{operation.name} "),
            transport=timing.transport,
            plane=way.plane,
            ranks=ranks,
            **self._checked(call, schedule),
            efficiency=timing.efficiency,
            busiest_link=timing.busiest,
            busiest_link_utilisation=timing.busiest_utilisation,
            count=count,
            dtype=self.dtype,
            redop="sum" if operation.reduces else "none",
            root=self.root if operation.rooted else -1,
        )

    def count(self, operation: Operation, size: int) -> int:
        """Return the elements of a row of at most so many bytes, as `Operation.count_of` does."""
        ranks = len(self.endpoints)
        most = operation.count_of(size, ranks, bench_dtype(self.dtype).itemsize)
        if self.given is None:
            return most
        chunks = int(self.given.sizes[:, :2].max())
        return self._chunk(operation, most) * chunks // (ranks if operation.blocks else 1)

    def used(self, operation: Operation, size: int) -> int:
        """Return S in bytes of a row of at most so many."""
        count, itemsize = self.count(operation, size), bench_dtype(self.dtype).itemsize
        parts = uneven_parts(operation.uneven, len(self.endpoints), count)
        if operation.uneven == "pairs":
            return max(int(max(sum(p[0]), sum(p[2]))) for p in parts) * itemsize
        if parts:
            return int(sum(parts)) * itemsize
        return operation.size_of(count, len(self.endpoints), itemsize)

    def _chunk(self, operation: Operation, count: int) -> int:
        """Return the elements of a chunk of the schedule that is given."""
        assert self.given is not None
        most = int(self.given.sizes[:, :2].max())
        return count * (len(self.endpoints) if operation.blocks else 1) // most

    def _built(
        self, way: Way, operation: Operation, algorithm: str, count: int, parts: Sequence[Any]
    ) -> Schedule:
        """Return the schedule of one of our own algorithms."""
        return build(
            operation.name,
            len(self.endpoints),
            count,
            algorithm=algorithm,
            root=self.root if operation.rooted else 0,
            chunks=self.chunks,
            fabric=way.fabric,
            endpoints=self.endpoints,
            itemsize=bench_dtype(self.dtype).itemsize,
            transport=way.transport,
            plane=way.plane,
            parts=parts or None,
        )

    def _checked(self, call: Call, schedule: Schedule) -> dict[str, Any]:
        """Return the columns that say what is wrong, out of place and in place."""
        wrong = self._wrong(call, schedule)
        known = OPERATIONS[call.op]
        algorithm = schedule.name.removeprefix(f"{call.op} ")
        able = call.op != "barrier" and algorithm not in known.apart and self.given is None
        again, dtype = None, bench_dtype(self.dtype)
        if able and wrong is not None:
            need = int(schedule.sizes.sum()) * dtype.itemsize
            if need <= MOST_BYTES:
                numbers = Numbers.for_sums(self.seed, dtype, call.ranks)
                again = wrong_in_place(call, schedule, dtype, numbers)
        return {"wrong": wrong, "in_place": able, "wrong_in_place": again}

    def _wrong(self, call: Call, schedule: Schedule) -> int | None:
        """Run the schedule on real bytes, where they fit, and count what is wrong."""
        dtype = bench_dtype(self.dtype)
        size = format_size(call.count * dtype.itemsize)
        what = f"{schedule.name} on {call.ranks} ranks, {size} each"
        parts = tiles(schedule, dtype.itemsize)
        begun: list[Tile] = []

        def largest() -> int:
            begun.append(next(parts))
            return int(begun[0].sizes.sum()) * dtype.itemsize

        need = int(schedule.sizes.sum()) * dtype.itemsize
        if not moves_bytes(self.payload, need, what, least=largest):
            return None
        numbers = Numbers.for_sums(self.seed, dtype, call.ranks)
        memory, check = TileMemory(dtype, self._take_unused()), Check(call, numbers)
        wrong, checked = 0, 0
        with long_work(f"moving {call.op} of {size}", WITHOUT_BYTES) as show:
            for tile in chain(begun, parts):
                memory.run(tile, numbers)
                wrong += check.wrong(tile, memory.arena)
                checked += int(tile.sizes[:, OUTPUT].sum())
                show(checked / max(int(schedule.sizes[:, OUTPUT].sum()), 1))
        self.unused.append(memory.arena)
        return wrong

    def _take_unused(self) -> Arena | None:
        """Return memory that no row uses now, for this row alone."""
        try:
            return self.unused.pop()
        except IndexError:
            return None
