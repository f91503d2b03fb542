"""What every place holds while a schedule runs: whose chunks were copied or added there.

A schedule of a known operation is judged by that: at its end every chunk of an output must hold
just what the operation means. Where one does not, the operation is looked for that made it so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ubnet.meaning import MEANINGS, Held, Place
from ubnet.operation import BUFFERS, COPY, INPUT, JOIN
from ubnet.schedule import Schedule

NOTHING: Held = frozenset()


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a schedule.

    Attributes
    ----------
    op : int
        The operation that is to blame, -1 where none writes the place.
    text : str
        What it does; where there is none, what nobody does.
    """

    op: int
    text: str


@dataclass(eq=False)
class _Write:
    """One chunk that an operation wrote: from where, over what, and what came out."""

    op: int
    place: Place
    incoming: Held
    before: Held
    after: Held
    reduces: bool
    made_by: "list[_Write]" = field(default_factory=list)


def first_fault(schedule: Schedule, chunk: int = 1) -> Fault | None:
    """Return what is wrong with a schedule of a known operation, or None.

    Parameters
    ----------
    schedule : Schedule
        Its name begins with that of the operation; of one that has no meaning here, or whose
        buffers do not have that operation's sizes, nothing is said.
    chunk : int
        Elements that always stand together: offsets, counts and sizes are multiples of it.

    Examples
    --------
    >>> from ubnet.schedule_builder import ScheduleBuilder
    >>> builder = ScheduleBuilder("send_recv wrong", 2, [1, 1, 0])
    >>> _ = builder.add(0, [0, 1], [0, 1], 0, 0, 1)
    >>> print(first_fault(builder.build()).text)
    puts rank 0's chunk 0 into rank 0 output chunk 0, where rank 1's chunk 0 belongs
    """
    meaning = MEANINGS.get(schedule.name.partition(" ")[0])
    sizes = schedule.sizes // chunk
    goals = meaning(sizes) if meaning and len(sizes) else []
    trace = _Trace(schedule, chunk)
    # Which rank the root is, is not written down: the one that fits best.
    judged = [({p: w for p, w in goal.items() if trace.held(p) != w}, goal) for goal in goals]
    wrong, goal = min(judged, key=lambda pair: len(pair[0]), default=({}, {}))
    return trace.blame(wrong, goal) if wrong else None


class _Trace:
    """A schedule as it runs, chunk by chunk."""

    def __init__(self, schedule: Schedule, chunk: int) -> None:
        self.last: dict[Place, _Write] = {}
        self.writes: list[_Write] = []
        self.twice: set[int] = set()  # writes, by id, that add what is there already
        s = schedule
        src_off, dst_off, counts = (c // chunk for c in (s.src_off, s.dst_off, s.count))
        columns = s.kind, s.src, s.src_buf, src_off, s.dst, s.dst_buf, dst_off, counts
        for op, row in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            kind, src, src_buf, src_off, dst, dst_buf, dst_off, count = row
            if kind == JOIN:
                continue
            made = [
                self._write(
                    op, kind != COPY, (src, src_buf, src_off + k), (dst, dst_buf, dst_off + k)
                )
                for k in range(count)
            ]
            for write in made:
                self.last[write.place] = write
            self.writes += made

    def held(self, place: Place) -> Held:
        """Return what a place holds now."""
        write = self.last.get(place)
        if write is not None:
            return write.after
        rank, buf, number = place
        return frozenset([(rank, number)]) if buf == INPUT else NOTHING

    def _write(self, op: int, reduces: bool, source: Place, place: Place) -> _Write:
        incoming, before = self.held(source), self.held(place)
        after = incoming | before if reduces else incoming
        write = _Write(op, place, incoming, before, after, reduces)
        both = (source, place) if reduces else (source,)
        write.made_by = [self.last[p] for p in both if p in self.last]
        if reduces and incoming & before:
            self.twice.add(id(write))
            write.after |= {(rank, -1 - number) for rank, number in incoming & before}
        return write

    def blame(self, wrong: Mapping[Place, Held], goal: Mapping[Place, Held]) -> Fault:
        """Return the first operation behind a wrong place that does what none should."""
        missing = NOTHING.union(*(held - self.held(p) for p, held in wrong.items()))
        behind = self._behind(wrong)
        for write in self.writes:
            # Either it made what is wrong, or what is missing went elsewhere by it.
            text = ""
            if id(write) in behind:
                text = self._offence(write, missing, goal)
            elif write.after & missing:
                text = self._stray(write, goal)
            if text:
                return Fault(write.op, text)
        place, belongs = next(iter(wrong.items()))
        if place not in self.last:
            return Fault(-1, f"writes {_name(place)}, where {_say(belongs)} belongs")
        what = f"is the last to write {_name(place)} and leaves {_say(self.held(place))}"
        return Fault(self.last[place].op, f"{what} where {_say(belongs)} belongs")

    def _behind(self, places: Mapping[Place, Held]) -> set[int]:
        """Return the writes, by id, that made what stands in some places."""
        found: set[int] = set()
        left = [self.last[place] for place in places if place in self.last]
        while left:
            write = left.pop()
            if id(write) not in found:
                found.add(id(write))
                left += write.made_by
        return found

    def _offence(self, write: _Write, missing: Held, goal: Mapping[Place, Held]) -> str:
        """Say what is wrong with a write, if that can be seen from it alone."""
        where = _name(write.place)
        if not write.incoming:
            return f"moves a chunk that holds nothing yet into {where}"
        if id(write) in self.twice:
            both = _say(write.incoming & write.before)
            return f"adds {both} to {where}, which holds it already"
        lost = (write.before - write.after) & missing
        if lost and not write.reduces:
            return f"puts {_say(write.incoming)} over {_say(lost)} in {where}, which is lost"
        stray = self._stray(write, goal)
        if stray:
            return stray
        if write.reduces and len({number for _, number in write.after}) > 1:
            return f"adds {_say(write.incoming)} to {_say(write.before)} in {where}"
        return ""

    def _stray(self, write: _Write, goal: Mapping[Place, Held]) -> str:
        """Say what a write puts into an output where something else belongs, if it does."""
        belongs = goal.get(write.place)
        if belongs is None or write.after <= belongs:
            return ""
        what = f"{'adds' if write.reduces else 'puts'} {_say(write.incoming)}"
        return f"{what} into {_name(write.place)}, where {_say(belongs)} belongs"


def _name(place: Place) -> str:
    rank, buf, number = place
    return f"rank {rank} {BUFFERS[buf]} chunk {number}"


def _say(held: Held) -> str:
    """Say in words what a place holds.

    >>> _say(frozenset([(0, 3), (1, 3), (2, 3)])), _say(frozenset([(5, 1)]))
    ('the sum of chunk 3 of ranks 0 to 2', "rank 5's chunk 1")
    """
    if not held:
        return "nothing"
    parts = sorted((number if number >= 0 else -1 - number, rank) for rank, number in held)
    numbers = sorted({number for number, _ in parts})
    ranks = sorted({rank for _, rank in parts})
    if len(parts) == 1:
        return f"rank {ranks[0]}'s chunk {numbers[0]}"
    run = ranks == list(range(ranks[0], ranks[-1] + 1)) and len(ranks) > 2
    who = f"{ranks[0]} to {ranks[-1]}" if run else ", ".join(map(str, ranks))
    word = "rank" if len(ranks) == 1 else "ranks"
    return f"the sum of chunk {' and '.join(map(str, numbers))} of {word} {who}"
