"""What hosts ranks in a process: runs each until it blocks, and applies what the clock delivers."""

import pickle
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from greenlet import GreenletExit, getcurrent

from ubnet import fold
from ubnet.accesses import ANSWERED
from ubnet.errors import UbnetError
from ubnet.exposure import Exposures
from ubnet.fabric import Ints
from ubnet.local_collective import LocalCollective
from ubnet.message import (
    LEAVE,
    Collective,
    Completion,
    Delivery,
    Leave,
    Pending,
    Post,
    position,
)
from ubnet.own_files import is_own
from ubnet.payloads import Payloads
from ubnet.plans import Plan, Plans
from ubnet.processes import Processes
from ubnet.rank import Rank, RankGreenlet
from ubnet.recording import Recorder

HUB = -1
"""In the place of a rank: the host itself."""


class Host:
    """The ranks of one process.

    Parameters
    ----------
    size : int
        Number of ranks of the world.
    ranks : range
        Those that this process hosts.
    plans : Plans
        What makes schedules.
    processes : Processes or None
        The processes of the world, None if this one is alone.
    eager_bytes : int
        Messages up to this size are copied when they are sent.
    compute_scale : float
        Virtual seconds per second of measured computing, 0 = computing is free.
    shuffle : numpy.random.Generator or None
        Runs the ranks of a round in random order; nothing may depend on it.

    Attributes
    ----------
    enter : callable or None
        Called with a rank's number each time before it runs, with `HUB` when none does.
    endpoint_names : list of str
        Where each rank of the world sits.
    labels : dict of int to str
        What reports call a communicator or a window.
    recorder : Recorder or None
        What takes down the ranks' waits, where they are recorded.
    kept : dict
        What a face keeps for all ranks of this process, by names of its own.
    exposures : Exposures
        What the ranks here expose in windows.
    payloads : Payloads
        What the ranks here have sent.
    posts : list of Post
        What the ranks have posted in this round.
    suspend : callable
        Leaves the running rank until the clock wakes it.
    """

    def __init__(
        self,
        size: int,
        ranks: range,
        plans: Plans,
        processes: Processes | None,
        *,
        eager_bytes: int,
        compute_scale: float = 0.0,
        shuffle: np.random.Generator | None = None,
    ) -> None:
        self.size = size
        self.now_ps = 0
        self.compute_scale = compute_scale
        self.values: dict[int, Any] = {}
        self.labels: dict[int, str] = {}
        self.kept: dict[Any, Any] = {}
        self.endpoint_names: list[str] = []
        self.error: BaseException | None = None
        self.recorder: Recorder | None = None
        self.enter: Callable[[int], None] | None = None
        self.ranks = {number: Rank(number, self) for number in ranks}
        self._greenlets: dict[int, RankGreenlet] = {}
        self._ready = list(ranks)
        self.posts: list[Post] = []
        self.suspend: Callable[[], object] = _refuse_to_wait
        self._plans = plans
        self._processes = processes
        self.exposures = Exposures(processes)
        self.payloads = Payloads(ranks, processes, eager_bytes)
        self._shuffle = shuffle
        self._stopping = False
        self._prepared = False
        self._calls: dict[tuple[int, int], int] = {}
        self._collectives: dict[tuple[int, int], LocalCollective] = {}
        self._collective_of: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}

    def start(self, main: Callable[[Rank], Any]) -> None:
        """Make every rank ready to run ``main(rank)``."""
        self.suspend = getcurrent().switch
        for number, rank in self.ranks.items():
            body = RankGreenlet(self._body(rank, main))
            body.of_rank = rank
            self._greenlets[number] = body

    def run_round(self) -> list[Post]:
        """Run every rank that can go on until it blocks; return what they posted."""
        ready = self._ready
        if self._shuffle is not None:
            ready = [ready[i] for i in self._shuffle.permutation(len(ready))]
        enter, greenlets = self.enter, self._greenlets
        for number in ready:
            if enter is not None:
                enter(number)
            greenlets[number].switch()
        if enter is not None:
            enter(HUB)
        posts, self.posts = self.posts, []
        return posts

    def apply(self, delivery: Delivery) -> None:
        """Take what the clock delivers: time, moved bytes, ended operations, ranks to resume."""
        self.now_ps = delivery.now_ps
        for effect in delivery.effects:
            self.exposures.carry_out(effect)
        for replay in delivery.replays:
            local = self._collectives.get(replay.gathering)
            if local is None:  # none of the members here has come yet, or all have gone
                continue
            call = local.first
            parts = replay.parts or [None] * len(call.group)
            plan = self._plans.plan(call.maker, parts, call.group, call.itemsize)
            self._move(local, plan, replay.ops)
            if local.over:
                del self._collectives[replay.gathering]
        for done in delivery.completions:
            self._complete(done, delivery)
        self._ready = delivery.wake

    def _enter(self, rank: int) -> None:
        if self.enter is not None:
            self.enter(rank)

    def _move(self, local: LocalCollective, plan: Plan, ops: Ints | None) -> None:
        """Move a collective's bytes; a reduction of the program's own runs as one of its ranks."""
        if not callable(local.first.reduce):
            local.move(plan, ops)
            return
        number = local.first.group[next(iter(local.calls))]
        local.enter = lambda inside: self._enter(number if inside else HUB)
        mover = RankGreenlet(lambda: local.move(plan, ops))
        mover.of_rank = self.ranks[number]
        suspend, self.suspend = self.suspend, _refuse_to_wait
        mover.switch()
        self.suspend = suspend
        if local.failure is not None and self.error is None:
            self.error = local.failure
            failure = _program_traceback(local.failure)
            self.posts.append(Leave(number, 1 << 62, LEAVE, 1, failure))

    def stop(self) -> None:
        """End the ranks that are still suspended."""
        self._stopping = True
        for number, body in self._greenlets.items():
            if not body.dead and body:
                self._enter(number)
                body.throw(GreenletExit)

    def frame_of(self, rank: int) -> FrameType | None:
        """Return where a suspended rank's program stands."""
        frame: FrameType | None = self._greenlets[rank].gr_frame
        return frame

    def post(self, post: Post, pending: Pending | None) -> None:
        """Take a post of a rank, and the operation that its completion ends."""
        self.posts.append(post)
        if pending is not None:
            self.ranks[post[0]].open[pending.number] = pending

    def spans(self, ranks: Sequence[int]) -> bool:
        """Say whether other processes host some of these ranks."""
        return any(rank not in self.ranks for rank in ranks)

    def count_call(self, rank: int, context: int) -> tuple[int, int]:
        """Count a collective call of a rank; return the name that all members give to it."""
        count = self._calls.get((context, rank), 0)
        self._calls[context, rank] = count + 1
        return context, count

    def keep_call(self, rank: int, number: int, call: Collective) -> bool:
        """Keep a rank's call of a collective; return whether it has real buffers."""
        key = self.count_call(rank, call.context)
        local = self._collectives.get(key)
        if local is None:
            processes = self._processes
            process_of = None if processes is None else processes.process_of
            local = LocalCollective(call.group, process_of, processes, self._plans.stages)
            self._collectives[key] = local
        place = position(rank, call.group)
        local.calls[place] = call
        self._collective_of[rank, number] = (key, place)
        return call.keep or call.input is not None or call.output is not None

    def prepare(self) -> None:
        """Load what moves bytes while the clock works; its holder loads what times them then."""
        if self._collectives and not self._prepared:
            self._prepared = True
            fold.load_ahead()

    def _body(self, rank: Rank, main: Callable[[Rank], Any]) -> Callable[[], None]:
        def body() -> None:
            status, failure = 0, ""
            rank.begin_program()
            try:
                value = self.values[rank.number] = main(rank)
                rank.end_program()
                if len(self.ranks) < self.size:
                    pickle.dumps(value)  # other processes get it: what cannot go fails here
            except SystemExit as leave:
                self.values[rank.number] = None
                status, failure = _exit_status(leave)
            except BaseException as error:
                if self._stopping or isinstance(error, KeyboardInterrupt):
                    raise
                status, failure = 1, _program_traceback(error)
                self.error = error
            self.posts.append(Leave(rank.number, 1 << 62, LEAVE, status, failure))
            rank.waits_in, rank.waits_for = "finished", []

        return body

    def _complete(self, done: Completion, delivery: Delivery) -> None:
        rank, number, source, tag, nbytes, payload, _, outcome = done
        pending = self.ranks[rank].open.pop(number)
        pending.done = True
        if outcome == "sent":
            self.payloads.release(rank, number, nbytes)
        elif outcome == "received" or outcome == "truncated":
            self.payloads.receive(pending, done)
        elif outcome == ANSWERED:
            self.exposures.finish(pending, done)
        elif outcome == "found":
            pending.source, pending.tag, pending.nbytes = source, tag, nbytes
            pending.data = payload
        elif outcome == "cancelled":
            pending.cancelled = True
        elif (rank, number) in self._collective_of:
            name, place = self._collective_of.pop((rank, number))
            local = self._collectives[name]
            pending.data = local.hand_out(place)
            if local.over:
                self._collectives.pop(name, None)
        elif delivery.values is not None and (rank, number) in delivery.values:
            pending.data = delivery.values[rank, number]


def _refuse_to_wait() -> NoReturn:
    raise UbnetError("a reduction of the program's own may not communicate or wait")


def _program_traceback(error: BaseException) -> str:
    """Return the traceback from the program's own first line on."""
    trace = error.__traceback__
    while trace is not None and is_own(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace or error.__traceback__)
    return "".join(lines).rstrip()


def _exit_status(leave: SystemExit) -> tuple[int, str]:
    """Return the status of a rank's ``sys.exit``, and the message it was given instead."""
    if leave.code is None:
        return 0, ""
    if isinstance(leave.code, int):
        return leave.code & 0xFF, ""
    return 1, str(leave.code)
