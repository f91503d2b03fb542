"""Who receives which message: posted receives and waiting messages of every rank.

Messages of one pair in a communicator become visible in the order in which they were sent. A
receive takes the first message that fits, by (arrival, source, number); a message goes to the
first receive that fits, in the order of posting.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ubnet.message import ANY, Probe, Receive, Send


@dataclass(slots=True, eq=False)
class Letter:
    """A message on its way, and its place among those of its pair of ranks.

    `eager` says that its bytes travel with it, `buffered` that its send has ended before.
    """

    source: int
    number: int
    dest: int
    tag: int
    context: int
    nbytes: int
    wire: int
    eager: bool
    buffered: bool
    pair: "_Pair"
    place: int

    @property
    def key(self) -> tuple[int, int]:
        """The sender and the sender's running number: the name of the payload."""
        return self.source, self.number


@dataclass(slots=True)
class _Pair:
    sent: int = 0
    visible: int = 0
    early: dict[int, Letter] = field(default_factory=dict)


class Mailbox:
    """The queues of all ranks of a world.

    Parameters
    ----------
    ranks : int
        Number of ranks.
    """

    def __init__(self, ranks: int) -> None:
        self._receives: list[list[Receive]] = [[] for _ in range(ranks)]
        self._probes: list[list[Probe]] = [[] for _ in range(ranks)]
        self._letters: list[list[Letter]] = [[] for _ in range(ranks)]
        self._taken: dict[tuple[int, int], Letter] = {}
        self._pairs: dict[tuple[int, int, int], _Pair] = {}

    def write_letter(self, send: Send, eager: bool) -> Letter:
        """Give a send its place among the messages of its pair."""
        source, number, _, dest, tag, context, nbytes, mode, wire = send
        key = (source, dest, context)
        pair = self._pairs.get(key)
        if pair is None:
            pair = self._pairs[key] = _Pair()
        place, pair.sent = pair.sent, pair.sent + 1
        buffered = mode == "buffered"
        return Letter(
            source, number, dest, tag, context, nbytes, wire, eager, buffered, pair, place
        )

    def arrive(self, letter: Letter) -> list[Letter]:
        """Return the letters that become visible now that `letter` has arrived."""
        pair = letter.pair
        if letter.place == pair.visible and not pair.early:
            pair.visible += 1
            return [letter]
        pair.early[letter.place] = letter
        visible = []
        while pair.visible in pair.early:
            visible.append(pair.early.pop(pair.visible))
            pair.visible += 1
        return visible

    def deliver(self, letter: Letter) -> tuple[Receive | None, Sequence[Probe]]:
        """Match a visible letter: the receive that takes it, and the probes that see it."""
        dest = letter.dest
        seen: Sequence[Probe] = ()
        if self._probes[dest]:
            seen = self._seen_by(letter, self._probes[dest])
            if any(probe.take for probe in seen):
                self._taken[letter.key] = letter
                return None, seen
        receives = self._receives[dest]
        for place, receive in enumerate(receives):
            if _fits(receive, letter):
                del receives[place]
                return receive, seen
        self._letters[dest].append(letter)
        return None, seen

    def receive(self, receive: Receive) -> Letter | None:
        """Post a receive; return the letter that it takes at once, if one waits."""
        rank, *_, taken = receive
        if taken is not None:
            return self._taken.pop(taken)
        letter = self._find(receive)
        if letter is None:
            self._receives[rank].append(receive)
        else:
            self._letters[rank].remove(letter)
        return letter

    def probe(self, probe: Probe, *, stay: bool) -> Letter | None:
        """Look for a letter; where none fits and `stay` is set the probe waits for one."""
        letter = self._find(probe)
        if letter is None:
            if stay:
                self._probes[probe.rank].append(probe)
        elif probe.take:
            self._letters[probe.rank].remove(letter)
            self._taken[letter.key] = letter
        return letter

    def cancel(self, rank: int, number: int) -> bool:
        """Withdraw a posted receive; False if it has already been matched."""
        for receive in self._receives[rank]:
            if receive[1] == number:
                self._receives[rank].remove(receive)
                return True
        return False

    def undelivered(self) -> list[Letter]:
        """Return every letter that was sent and never received, by receiver and arrival."""
        left = [letter for letters in self._letters for letter in letters]
        left += self._taken.values()
        left += [letter for pair in self._pairs.values() for letter in pair.early.values()]
        return left

    def _seen_by(self, letter: Letter, probes: list[Probe]) -> list[Probe]:
        """Take out and return the probes that see a letter, of which the first taker has it."""
        seen = [p for p in probes if _fits(p, letter)]
        taker = next((p for p in seen if p.take), None)
        seen = [p for p in seen if not p.take or p is taker]
        for probe in seen:
            probes.remove(probe)
        return seen

    def _find(self, wanted: Receive | Probe) -> Letter | None:
        for letter in self._letters[wanted[0]]:
            if _fits(wanted, letter):
                return letter
        return None


def _fits(wanted: Receive | Probe, letter: Letter) -> bool:
    source, tag, context = wanted[3:6]
    return (
        context == letter.context
        and (source == letter.source or source == ANY)
        and (tag == letter.tag or tag == ANY)
    )
