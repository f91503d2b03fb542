"""A step of an MSCCL file, and what it waits for."""

from dataclasses import dataclass, field

RECEIVING = ("r", "rcs", "rrc", "rrs", "rrcs")
SENDING = ("s", "rcs", "rrs", "rrcs")
LOCAL = ("cpy", "re", "nop")

Side = tuple[int, int]
"""A buffer, and an offset in it in chunks."""


@dataclass(eq=False)
class Step:
    """A step of the file, with the operations that it became.

    In MSCCL a step that sends has ended when its data has left the buffer, arrived or not. Here
    data leaves when its receiver takes it; so whoever overwrites it waits for that. Where steps
    would wait for each other by this, as two do that swap their chunks, what was sent is `staged`:
    it waits at its receiver, as in MSCCL's own buffers.

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
        The steps that it follows: the one before it in its thread block, and a `named` one.
    named : list of Step
        The one of them that ``depid`` and ``deps`` name. If it sends, its data is waited for: so
        schedules of ours that were written keep their times.
    overwrites : list of Step
        Steps before it that send what it overwrites.
    peer_out, peer_in : Step or None
        The step that receives what this one sends, and that sends what this one receives.
    staged : bool
        What it sends waits at its receiver.
    done : list of int
        The operations with which it has ended; if it only sends, those after which it can.
    sent : list of int
        The operation with which staged data has left.
    own : int
        The number of the step in a schedule of ours that was written, -1 = none.
    """

    gpu: int
    block: int
    number: int
    kind: str
    src: Side
    dst: Side
    count: int
    before: "list[Step]" = field(default_factory=list)
    named: "list[Step]" = field(default_factory=list)
    overwrites: "list[Step]" = field(default_factory=list)
    peer_out: "Step | None" = None
    peer_in: "Step | None" = None
    staged: bool = False
    done: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    own: int = -1

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return f"gpu {self.gpu} tb {self.block} step {self.number} ({self.kind})"

    @property
    def sends(self) -> Side | None:
        """The place of the gpu's buffers from which it sends, if it does."""
        if self.kind == "s":
            return self.src
        return self.dst if self.kind in ("rcs", "rrcs") else None

    @property
    def writes(self) -> Side | None:
        """The place of the gpu's buffers that it writes, if it does."""
        return None if self.kind in ("s", "rrs", "nop") else self.dst

    @property
    def gone(self) -> "list[Step]":
        """The sending steps whose data must have left before this one begins."""
        return [other for other in self.named if other.peer_out is not None] + self.overwrites

    @property
    def needs(self) -> "list[Step]":
        """The steps that must have become operations before this one does."""
        found = [*self.before, *(_taker(other) for other in self.gone)]
        return found if self.peer_in is None else [*found, self.peer_in]

    @property
    def waits(self) -> list[int]:
        """The operations that this one waits for on its own gpu."""
        ended = [op for other in self.before for op in other.done]
        for other in self.gone:
            ended += other.sent if other.staged else _taker(other).done
        return ended


def _taker(sending: Step) -> Step:
    """Return the step with which the data of a sending one leaves."""
    taker = sending if sending.staged else sending.peer_out
    assert taker is not None  # every send was paired with its receive
    return taker
