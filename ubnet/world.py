"""A world of ranks: hosts them, drives the rounds, and says how it ended."""

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from ubnet.clock import Clock, ClockOptions, WorldEnd
from ubnet.errors import Deadlock, OptionError, RankFailed, UbnetError
from ubnet.eventlog import EventLog
from ubnet.fabric import Fabric
from ubnet.garbage import seldom_collected
from ubnet.host import Host
from ubnet.message import Delivery, Post
from ubnet.place import place_ranks
from ubnet.plans import Plans
from ubnet.processes import HOLDER, Processes
from ubnet.rank import Rank
from ubnet.real_mpi import under_mpirun
from ubnet.recording import Recorder, Recording
from ubnet.stall import deadlock_text, waiting_line

INTERRUPTED = 130
"""The status of a process that Ctrl-C has ended."""


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """How a world runs its ranks and sends their messages.

    Attributes
    ----------
    clock : ClockOptions
        Transport, eager bound and rendezvous of messages.
    compute_scale : float
        Virtual seconds per second that a rank has really computed; 0 = computing is free.
    shuffle_seed : int or None
        Runs the ranks of each round in random order: nothing may change.
    events : text file or None
        Where event lines are written.
    """

    clock: ClockOptions = field(default_factory=ClockOptions)
    compute_scale: float = 0.0
    shuffle_seed: int | None = None
    events: IO[str] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a world returns; the same in every process of mpirun.

    Attributes
    ----------
    values : list
        What each rank's program returned.
    time_ps : int
        Virtual time at which the last rank ended.
    digest : str
        SHA-256 of the event lines.
    report : dict of str to float
        Bytes that each resource has carried (share counted), those that carried any.
    recording : Recording or None
        What ranks did when, where the world was told to record.
    """

    values: list[Any]
    time_ps: int
    digest: str
    report: dict[str, float]
    recording: Recording | None = None


class World:
    """Ranks on endpoints of a fabric, with one virtual clock.

    Parameters
    ----------
    fabric : Fabric
        What the ranks sit on.
    ranks : int
        How many there are.
    place : str or sequence of str
        Where they sit, as `ubnet.place.place_ranks` takes it.
    options : WorldOptions
        How they run.

    Attributes
    ----------
    recording : Recording or None
        What ranks did when, once the world has ended, where it was told to `record`.
    """

    def __init__(
        self,
        fabric: Fabric,
        ranks: int,
        place: str | Sequence[str] = "die",
        options: WorldOptions | None = None,
    ) -> None:
        options = options or WorldOptions()
        self.fabric = fabric
        self.endpoints = place_ranks(fabric, ranks, place)
        self._processes = Processes(ranks) if under_mpirun() else None
        self._log = EventLog(options.events)
        plans = Plans(fabric, self.endpoints, options.clock.transport)
        self._clock: Clock | None = None
        self._recorders: list[Recorder] = []
        self.recording: Recording | None = None
        if self._processes is None or self._processes.process == HOLDER:
            self._clock = Clock(fabric, self.endpoints, plans, options.clock, self._log)
        seed = options.shuffle_seed
        self.host = Host(
            ranks,
            range(ranks) if self._processes is None else self._processes.hosted,
            plans,
            self._processes,
            eager_bytes=options.clock.eager_bytes,
            compute_scale=options.compute_scale,
            shuffle=None if seed is None else np.random.default_rng(seed),
        )
        self.host.endpoint_names = [fabric.endpoints[place].name for place in self.endpoints]

    def record(self) -> None:
        """Take down what the ranks do when; `recording` holds it once the world has ended."""
        host = self.host
        host.recorder = Recorder(lambda: host.now_ps)
        self._recorders = [host.recorder]
        if self._clock is not None:
            self._recorders.append(self._clock.record())

    def run(self, main: Callable[[Rank], Any]) -> Result:
        """Run ``main(rank)`` on every rank until all have returned.

        Raises
        ------
        Deadlock
            If no rank can run and nothing is under way.
        RankFailed
            If a rank raised; SystemExit if it left with a status other than 0.
        MismatchedCall
            If ranks disagree on a collective call.
        """
        self.host.start(main)
        try:
            with seldom_collected():
                end = self._drive_or_abort()
            return self._finish(end)
        finally:
            self.host.stop()

    def _drive_or_abort(self) -> WorldEnd:
        """Drive the rounds; what fails in one process alone ends all of them."""
        try:
            return self._drive()
        except BaseException as error:
            if self._processes is not None and self._processes.size > 1:
                interrupted = isinstance(error, KeyboardInterrupt)
                if interrupted:
                    print("ubnet: interrupted", file=sys.stderr, flush=True)
                else:
                    traceback.print_exc()
                self._processes.abort(INTERRUPTED if interrupted else 1)
            raise

    def _drive(self) -> WorldEnd:
        host = self.host
        while True:
            outcome = self._step(host.run_round())
            if type(outcome) is WorldEnd:
                return outcome
            host.apply(outcome)

    def _step(self, posts: list[Post]) -> Delivery | WorldEnd:
        processes = self._processes
        if self._clock is None:
            assert processes is not None
            processes.report(posts)
            self.host.prepare()
            told: Delivery | WorldEnd = processes.hear()
            return told
        if processes is not None:
            posts = processes.collect(posts)
        try:
            outcome = self._clock.step(posts)
        except UbnetError as error:
            error.exit_status = 1  # the program has run
            outcome = WorldEnd("refused", 1, "", error)
        if processes is None:
            return outcome
        if isinstance(outcome, WorldEnd):
            processes.deliver(dict.fromkeys(range(1, processes.size), outcome))
            return outcome
        mine, others = processes.split(outcome)
        processes.deliver(others)
        return mine

    def _finish(self, end: WorldEnd) -> Result:
        lines: list[str] = []
        if end.reason == "deadlock":
            lines = self._waiting_lines()
        values = self.host.values if end.reason == "finished" else {}
        recordings = [recorder.recording for recorder in self._recorders]
        share = (lines, values, self._log.digest(), self._time_ps(), self._carried(), recordings)
        shared = [share] if self._processes is None else self._processes.share(share)
        if self._processes is not None:
            self._processes.close()
        recordings = [recording for part in shared for recording in part[5]]
        self.recording = recordings[0].join(recordings[1:]) if recordings else None
        lines = [line for part in shared for line in part[0]]
        _, _, digest, time_ps, carried, _ = shared[HOLDER]
        if end.reason != "finished":
            _raise(end, deadlock_text(time_ps, lines), self.host.error)
        values = {number: value for part in shared for number, value in part[1].items()}
        ordered = [values[number] for number in range(self.host.size)]
        return Result(ordered, time_ps, digest, carried, self.recording)

    def _waiting_lines(self) -> list[str]:
        """Return a line for each rank here that says what it waits for, and take it down."""
        host, lines = self.host, []
        for number, rank in host.ranks.items():
            frame = host.frame_of(number)
            lines.append(waiting_line(rank, frame, host.labels))
            if host.recorder is not None and rank.waits_in != "finished":
                waits_for = lines[-1].partition(": ")[2]
                host.recorder.stuck(number, frame, rank.waits_in, rank.waits_for, waits_for)
        return lines

    def _time_ps(self) -> int:
        return 0 if self._clock is None else self._clock.now_ps

    def _carried(self) -> dict[str, float]:
        if self._clock is None:
            return {}
        carried = self._clock.network.link_bytes()
        names = self.fabric.resource_names
        return {names[i]: float(carried[i]) for i in np.flatnonzero(carried[: len(names)])}


def _raise(end: WorldEnd, deadlock: str, cause: BaseException | None) -> None:
    if end.error is not None:
        raise end.error
    if end.reason == "deadlock":
        raise Deadlock(deadlock)
    if end.failure:
        raise RankFailed(f"rank {end.rank} failed:\n{end.failure}") from cause
    raise SystemExit(end.status)


def check_ranks(ranks: int | None) -> int:
    """Return the number of ranks: as given, else one a process of mpirun, else 1."""
    if ranks is None:
        if not under_mpirun():
            return 1
        from ubnet.real_mpi import load_real_mpi

        return int(load_real_mpi().COMM_WORLD.size)
    if ranks < 1:
        raise OptionError(f"{ranks} ranks: there must be at least 1, as in -n 8")
    return ranks
