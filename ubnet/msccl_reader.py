"""Schedules from MSCCL XML: what is wrong is named with the step's gpu, thread block and number."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, parse

import numpy as np

from ubnet.contributions import first_fault
from ubnet.errors import ScheduleError
from ubnet.msccl import BUFFER_LETTERS, NAMES
from ubnet.msccl_operations import Operations
from ubnet.msccl_order import ordered
from ubnet.msccl_step import LOCAL, RECEIVING, SENDING, Step
from ubnet.operation import INPUT, OUTPUT
from ubnet.schedule import Schedule
from ubnet.schedule_check import ORDER_LIMIT, first_race

MOST_CHUNKS = 200_000
"""Chunks that the steps of a file move in all, up to which each of them is followed."""


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
        right chunks end in the right places. A step may overwrite what one before it has sent,
        as in MSCCL: it waits until that has left, or what was sent waits in scratch at its
        receiver, however much that is, where steps would wait for each other otherwise.

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
            if number in blocks:
                raise ScheduleError(
                    f"{where} has two <tb> of id {number}; give each an id of its own"
                )
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
        if self.in_place and kind == "cpy" and step.src == step.dst:  # it is there already
            step.kind = "nop"
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
        steps, stuck = ordered(self.steps)
        if stuck is not None:
            raise self._wrong(stuck, "can never run: it waits, by way of others, for itself")
        operations = Operations(self.name, self.sizes, self.elements)
        try:
            made = operations.build(steps)
            self._check_meaning(made, operations.of)
            self._check_order(made, operations.of)
        except ScheduleError as error:
            if str(error).startswith(self.path):
                raise
            ops = [int(op) for op in re.findall(r"\bop (\d+)\b", str(error))]
            named = " and ".join(operations.of[op].place for op in ops[:2]) or "no step"
            raise ScheduleError(f"{self.path}: {named}: {error}") from None
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

    def _check_order(self, made: Schedule, where: list[Step]) -> None:
        """Raise where two steps use a chunk in no fixed order."""
        made.validate(ordering=False)
        race = first_race(made) if len(made) <= ORDER_LIMIT else None
        if race is None:
            return
        first, second = (_at(where[op], race.rank).place for op in (race.earlier, race.later))
        chunk, buffer = race.begin // self.elements, BUFFER_LETTERS[race.buffer]
        raise ScheduleError(
            f"{self.path}: {first} and {second} use chunk {chunk} of buffer {buffer} in no fixed "
            "order; let one wait for the other (depid and deps), or put both into one tb"
        )

    def _wrong(self, step: Step, what: str) -> ScheduleError:
        return ScheduleError(f"{self.path}: {step.place} {what}")


def _at(step: Step, gpu: int) -> Step:
    """Return the step on a gpu of those that share a transfer."""
    return step if step.gpu == gpu or step.peer_in is None else step.peer_in


def _whole(element: Element, name: str, where: str, least: int = 0) -> int:
    """Return an attribute that must be a whole number."""
    text = element.get(name)
    if text is None or not re.fullmatch(r"-?\d+", text) or int(text) < least:
        raise ScheduleError(
            f"{where}: <{element.tag}> has {name}={text!r}; give a whole number from {least}"
        )
    return int(text)
