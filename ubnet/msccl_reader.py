"""Schedules from MSCCL XML: what is wrong is named with the step's gpu, thread block and number."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, parse

import numpy as np
from numpy.typing import NDArray

from ubnet.contributions import first_fault
from ubnet.errors import ScheduleError
from ubnet.msccl import BUFFER_LETTERS, NAMES
from ubnet.operation import COPY, INPUT, OUTPUT, REDUCE, SCRATCH
from ubnet.schedule import Schedule, ScheduleBuilder
from ubnet.schedule_check import ORDER_LIMIT

MOST_CHUNKS = 200_000
"""Chunks that the steps of a file move in all, up to which each of them is followed."""

RECEIVING = ("r", "rcs", "rrc", "rrs", "rrcs")
SENDING = ("s", "rcs", "rrs", "rrcs")
LOCAL = ("cpy", "re", "nop")


@dataclass(eq=False)
class Step:
    """A step of the file, with the operations that it became.

    Attributes
    ----------
    gpu, block, number : int
        Where it stands.
    kind : str
        Its type.
    src, dst : tuple of int
        Buffer and offset of both sides, in chunks.
    count : int
        Chunks.
    before : list of Step
        The steps that it waits for. What was sent is out of the way then, as in MSCCL, whether it
        has arrived or not; but a step that names a sending one waits for what that sent.
    named : list of Step
        Those of them that ``depid`` and ``deps`` name.
    peer_out, peer_in : Step or None
        The step that receives what this one sends, and that sends what this one receives.
    done : list of int
        The operations with which it has ended.
    own : int
        The number of the step in a schedule of ours that was written, -1 = none.
    """

    gpu: int
    block: int
    number: int
    kind: str
    src: tuple[int, int]
    dst: tuple[int, int]
    count: int
    before: "list[Step]" = field(default_factory=list)
    named: "list[Step]" = field(default_factory=list)
    peer_out: "Step | None" = None
    peer_in: "Step | None" = None
    done: list[int] = field(default_factory=list)
    own: int = -1

    @property
    def awaited(self) -> "list[Step]":
        """The steps whose operations this one waits for."""
        arrived = [other.peer_out for other in self.named if other.peer_out is not None]
        return [*(other for other in self.before if other.kind != "s"), *arrived]

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return f"gpu {self.gpu} tb {self.block} step {self.number} ({self.kind})"


def read_msccl(path: str | Path, elements: int = 1) -> Schedule:
    """Read a schedule from MSCCL XML and check it.

    Parameters
    ----------
    path : str or Path
        The file.
    elements : int
        Elements of a chunk.

    Returns
    -------
    Schedule
        Named as our own are, such as ``all_reduce`` and the name in the file. Its order is
        checked up to the length that `Schedule.validate` allows, and up to `MOST_CHUNKS` that the
        right chunks end in the right places.

    Raises
    ------
    ScheduleError
        If the file cannot be read or a step is wrong: the message says which one, and why.
    """
    try:
        root = parse(path).getroot()
    except ParseError as error:
        raise ScheduleError(f"{path} is no XML: {error}") from None
    return _Reader(root, str(path), elements).schedule()


def scaled(schedule: Schedule, elements: int) -> Schedule:
    """Return the same schedule with so many elements for each one."""
    return replace(
        schedule,
        sizes=schedule.sizes * elements,
        src_off=schedule.src_off * elements,
        dst_off=schedule.dst_off * elements,
        count=schedule.count * elements,
    )


class _Reader:
    """Turns the elements of one file into a schedule."""

    def __init__(self, root: Element, path: str, elements: int) -> None:
        self.path, self.elements = path, elements
        if root.tag != "algo":
            raise ScheduleError(f"{path}: the file holds <{root.tag}>, not <algo> as MSCCL's do")
        self.ranks = _whole(root, "ngpus", path)
        gpus = root.findall("gpu")
        if sorted(_whole(gpu, "id", path) for gpu in gpus) != list(range(self.ranks)):
            raise ScheduleError(f"{path}: ngpus is {self.ranks}, but there are {len(gpus)} <gpu>")
        self.in_place = root.get("inplace", "0") == "1"
        plain = {theirs: ours for ours, theirs in NAMES.items()}
        coll, name = root.get("coll", ""), root.get("name", "msccl")
        ours = plain.get(coll, coll)
        self.name = name if name.startswith(f"{ours} ") else f"{ours} {name.replace(' ', '_')}"
        self.sizes = np.zeros((self.ranks, 3), dtype=np.int64)
        self.steps: list[Step] = []
        self.links: dict[tuple[int, int, int], tuple[list[Step], list[Step]]] = {}
        for gpu in sorted(gpus, key=lambda gpu: _whole(gpu, "id", path)):
            self._gpu(gpu)
        self._pair()

    def _gpu(self, gpu: Element) -> None:
        rank = _whole(gpu, "id", self.path)
        where = f"{self.path}: gpu {rank}"
        self.sizes[rank] = [_whole(gpu, f"{b}_chunks", where) for b in BUFFER_LETTERS]
        if self.in_place:
            self._join_input_and_output(rank, where)
        blocks: dict[int, dict[int, Step]] = {}
        waits: list[tuple[Step, int, int]] = []
        for tb in gpu.findall("tb"):
            number = _whole(tb, "id", where)
            send, recv, chan = (_whole(tb, n, where, least=-1) for n in ("send", "recv", "chan"))
            mine: dict[int, Step] = {}
            for element in tb.findall("step"):
                step = self._step(element, rank, number, len(mine))
                mine[step.number] = step
                if step.number:
                    step.before.append(mine[step.number - 1])
                self._connect(step, send, recv, chan)
                depid = _whole(element, "depid", step.place, least=-1)
                if depid >= 0:
                    waits.append((step, depid, _whole(element, "deps", step.place)))
            blocks[number] = mine
        for step, block, other in waits:
            if other not in blocks.get(block, {}):
                raise self._wrong(step, f"waits for tb {block} step {other}, which is not there")
            step.before.append(blocks[block][other])
            step.named.append(blocks[block][other])

    def _join_input_and_output(self, rank: int, where: str) -> None:
        """Let input and output be one buffer, the input."""
        given, result = self.sizes[rank, INPUT], self.sizes[rank, OUTPUT]
        if given and result and given != result:
            raise ScheduleError(
                f"{where}: i_chunks is {given} and o_chunks {result}; with inplace=1 they are one "
                "buffer: give both the same, or write the file with inplace=0"
            )
        self.sizes[rank, INPUT], self.sizes[rank, OUTPUT] = max(given, result), 0

    def _step(self, element: Element, rank: int, block: int, expected: int) -> Step:
        kind = element.get("type", "")
        where = f"{self.path}: gpu {rank} tb {block} step {element.get('s')}"
        number, count = _whole(element, "s", where), _whole(element, "cnt", where)
        sides = []
        for side in ("src", "dst"):
            letter = element.get(f"{side}buf", "")
            if letter not in BUFFER_LETTERS:
                raise ScheduleError(f"{where}: {side}buf is {letter!r}; allowed: i, o, s")
            off = _whole(element, f"{side}off", where, least=-1)
            buffer = BUFFER_LETTERS.index(letter)
            sides.append((INPUT if self.in_place and buffer == OUTPUT else buffer, off))
        step = Step(rank, block, number, kind, sides[0], sides[1], count)
        if element.get("ubnet") is not None:
            step.own = _whole(element, "ubnet", where)
        if kind not in RECEIVING + SENDING + LOCAL:
            known = ", ".join(dict.fromkeys((*SENDING[:1], *RECEIVING, *LOCAL)))
            raise self._wrong(step, f"has type {kind!r}; allowed: {known}")
        if number != expected:
            raise self._wrong(step, f"has number {number}, but stands at place {expected}")
        self._check_ranges(step)
        self.steps.append(step)
        return step

    def _check_ranges(self, step: Step) -> None:
        """Raise where a step uses chunks that its gpu does not have."""
        uses = {
            "src": step.kind in ("s", "cpy", "re", "rrc", "rrs", "rrcs"),
            "dst": step.kind in ("r", "rcs", "rrc", "rrcs", "cpy", "re"),
        }
        if step.kind != "nop" and step.count < 1:
            raise self._wrong(step, f"has cnt {step.count}; a step moves 1 chunk or more")
        for side, (buf, off) in (("src", step.src), ("dst", step.dst)):
            has = int(self.sizes[step.gpu, buf])
            if uses[side] and not 0 <= off <= has - step.count:
                raise self._wrong(
                    step,
                    f"uses chunks {off} to {off + step.count - 1} of {side}buf "
                    f"{BUFFER_LETTERS[buf]}, which has {has}",
                )

    def _connect(self, step: Step, send: int, recv: int, chan: int) -> None:
        for kinds, peer, way in ((SENDING, send, "send"), (RECEIVING, recv, "recv")):
            if step.kind not in kinds:
                continue
            if not 0 <= peer < self.ranks or peer == step.gpu:
                raise self._wrong(step, f"needs a {way} peer, but its tb has {way}={peer}")
            key = (step.gpu, peer, chan) if way == "send" else (peer, step.gpu, chan)
            self.links.setdefault(key, ([], []))[way == "recv"].append(step)

    def _pair(self) -> None:
        """Pair the sends of every connection with its receives, one by one."""
        for (src, dst, chan), (sends, receives) in self.links.items():
            for out, into in zip(sends, receives, strict=False):
                if out.count != into.count:
                    raise self._wrong(
                        into, f"receives {into.count} chunks where {out.place} sends {out.count}"
                    )
                out.peer_out, into.peer_in = into, out
            if len(sends) != len(receives):
                more, verb = (sends, "sends") if len(sends) > len(receives) else (receives, "waits")
                step = more[min(len(sends), len(receives))]
                raise self._wrong(
                    step,
                    f"{verb}, but nothing answers it: gpu {src} sends {len(sends)} times to gpu "
                    f"{dst} on channel {chan}, which receives {len(receives)} times",
                )

    def schedule(self) -> Schedule:
        """Return the schedule."""
        sizes = self.sizes * self.elements
        room = [0] * self.ranks
        for step in self.steps:
            room[step.gpu] += step.count if step.kind == "rrs" else 0
        sizes[:, SCRATCH] += np.array(room, dtype=np.int64) * self.elements
        builder = ScheduleBuilder(self.name, self.ranks, sizes)
        where: list[Step] = []
        free = self.sizes[:, SCRATCH].copy()
        for step in self._ordered():
            self._enter(builder, step, where, free)
        try:
            made = builder.build()
            known = [step.own for step in where]
            given = np.array(known) if min(known, default=-1) >= 0 else made.level()
            made = replace(made, step=given.astype(np.int32))
            self._check_meaning(made, where)
            made.validate(ordering=len(made) <= ORDER_LIMIT)
        except ScheduleError as error:
            if str(error).startswith(self.path):
                raise
            ops = [int(op) for op in re.findall(r"\bop (\d+)\b", str(error))]
            steps = " and ".join(where[op].place for op in ops[:2]) or "no step"
            raise ScheduleError(f"{self.path}: {steps}: {error}") from None
        return made

    def _check_meaning(self, made: Schedule, where: list[Step]) -> None:
        """Raise where a step moves a chunk to where the operation has no use for it."""
        if int(made.count.sum()) > MOST_CHUNKS * self.elements:
            return
        fault = first_fault(made, self.elements)
        if fault is None:
            return
        if fault.op < 0:
            raise ScheduleError(f"{self.path}: no step {fault.text}")
        step = where[fault.op]
        sent = f"from {step.peer_in.place} " if step.peer_in else ""
        raise self._wrong(step, sent + fault.text)

    def _ordered(self) -> list[Step]:
        """Return the steps so that each comes behind all that it needs."""
        needs = {step: [*step.before, *step.awaited] for step in self.steps}
        for step in self.steps:
            if step.peer_in is not None:
                needs[step] += [step.peer_in, *step.peer_in.awaited]
        left = {step: len(before) for step, before in needs.items()}
        followers: dict[Step, list[Step]] = {step: [] for step in self.steps}
        for step, before in needs.items():
            for other in before:
                followers[other].append(step)
        ready = [step for step in self.steps if not left[step]]
        found = []
        while ready:
            step = ready.pop()
            found.append(step)
            for other in followers[step]:
                left[other] -= 1
                if not left[other]:
                    ready.append(other)
        if len(found) < len(self.steps):
            stuck = next(step for step in self.steps if left[step])
            raise self._wrong(stuck, "can never run: it waits, by way of others, for itself")
        return found

    def _enter(
        self, builder: ScheduleBuilder, step: Step, where: list[Step], free: NDArray[np.int64]
    ) -> None:
        """Add what a step does; a send is added with the step that receives it."""

        def add(
            src: tuple[int, int, int], dst: tuple[int, int, int], kind: int, after: list[int]
        ) -> list[int]:
            where.append(step)
            unit = self.elements
            ids: list[int] = builder.add(
                len(where) - 1, src[0], dst[0], src[2] * unit, dst[2] * unit, step.count * unit,
                src_buf=src[1], dst_buf=dst[1], kind=kind, after=sorted(set(after)),
            ).tolist()  # fmt: skip
            return ids

        waits = [op for other in step.awaited for op in other.done]
        mine, target = (step.gpu, *step.src), (step.gpu, *step.dst)
        if step.kind == "s":
            return  # added with the step that receives it
        if step.kind == "nop":
            where.append(step)
            step.own = max(step.own, 0)
            step.done = builder.join(len(where) - 1, step.gpu, sorted(set(waits))).tolist()
            return
        if step.kind in ("cpy", "re"):
            step.done = add(mine, target, COPY if step.kind == "cpy" else REDUCE, waits)
            return
        if step.kind == "rrs":
            target = (step.gpu, SCRATCH, int(free[step.gpu]))
            free[step.gpu] += step.count
        step.dst = target[1:]
        reduces = step.kind in ("rrc", "rrs", "rrcs")
        if reduces and mine != target:
            waits = add(mine, target, COPY, waits)
        out = step.peer_in
        assert out is not None
        source = (out.gpu, *(out.src if out.kind == "s" else out.dst))
        waits += [op for other in out.awaited for op in other.done]
        waits += out.done if out.kind != "s" else []
        step.done = add(source, target, REDUCE if reduces else COPY, waits)

    def _wrong(self, step: Step, what: str) -> ScheduleError:
        return ScheduleError(f"{self.path}: {step.place} {what}")


def _whole(element: Element, name: str, where: str, least: int = 0) -> int:
    """Return an attribute that must be a whole number."""
    text = element.get(name)
    if text is None or not re.fullmatch(r"-?\d+", text) or int(text) < least:
        raise ScheduleError(
            f"{where}: <{element.tag}> has {name}={text!r}; give a whole number from {least}"
        )
    return int(text)
