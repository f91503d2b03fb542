"""Random programs in MSCCL's terms, written as files, and a plain interpreter of what they mean."""

from dataclasses import dataclass, field

BUFFERS = "ios"
CHUNKS = 3  # of every buffer
BLOCKS = 2  # of every gpu: each sends to the next gpu and receives from the one before


@dataclass
class Step:
    kind: str
    src: tuple
    dst: tuple
    count: int
    wait: tuple | None = None  # block and number of a step of this gpu

    def reads(self):
        return self.src if self.kind in ("s", "cpy", "re", "rrc", "rrs", "rrcs") else None

    def writes(self):
        return self.dst if self.kind in ("r", "cpy", "re", "rrc", "rcs", "rrcs") else None


@dataclass
class Program:
    """Steps of gpus, in the lists of their thread blocks, and the order in which they were made."""

    gpus: int
    blocks: dict = field(default_factory=dict)  # (gpu, block) -> steps
    order: list = field(default_factory=list)  # (gpu, block, number)

    def add(self, gpu, block, step):
        steps = self.blocks.setdefault((gpu, block), [])
        self.order.append((gpu, block, len(steps)))
        steps.append(step)

    def step(self, place):
        return self.blocks[place[:2]][place[2]]

    def xml(self):
        text = f'<algo name="made" ngpus="{self.gpus}" coll="custom" inplace="0">'
        for gpu in range(self.gpus):
            sizes = " ".join(f'{letter}_chunks="{CHUNKS}"' for letter in BUFFERS)
            text += f'<gpu id="{gpu}" {sizes}>'
            for block in range(BLOCKS):
                send, recv = (gpu + 1) % self.gpus, (gpu - 1) % self.gpus
                text += f'<tb id="{block}" send="{send}" recv="{recv}" chan="{block}">'
                for number, step in enumerate(self.blocks.get((gpu, block), [])):
                    text += _xml(number, step)
                text += "</tb>"
            text += "</gpu>"
        return text + "</algo>"

    def run(self):
        """Return the outputs when the steps run in the order in which they were made."""
        held = {
            (gpu, letter): [100**gpu * 10**k * (letter == "i") for k in range(CHUNKS)]
            for gpu in range(self.gpus)
            for letter in BUFFERS
        }
        queues = {}
        for gpu, block, number in self.order:
            step = self.blocks[gpu, block][number]
            (src, at), (dst, to), n = step.src, step.dst, step.count
            if step.kind == "nop":
                continue
            mine = held[gpu, src][at : at + n]
            if "r" in step.kind and step.kind != "re":
                came = queues[(gpu - 1) % self.gpus, block].pop(0)
            if step.kind in ("s", "cpy", "re"):
                value = mine
            else:
                adds = step.kind in ("rrc", "rrs", "rrcs")
                value = [a + b for a, b in zip(came, mine, strict=True)] if adds else came
            if step.kind == "re":
                value = [a + b for a, b in zip(mine, held[gpu, dst][to : to + n], strict=True)]
            if step.writes():
                held[gpu, dst][to : to + n] = value
            if step.kind in SENDING:
                queues.setdefault((gpu, block), []).append(list(value))
        return [held[gpu, "o"] for gpu in range(self.gpus)]

    def races(self):
        """Return pairs of steps that use a chunk, one writing it, and that nothing orders."""
        before = self.before()
        found = []
        for k, other in enumerate(self.order):
            for place in self.order[:k]:
                if place[0] == other[0] and place not in before[other]:
                    one, two = self.step(place), self.step(other)
                    pairs = [
                        (one.writes(), two.writes()),
                        (one.writes(), two.reads()),
                        (one.reads(), two.writes()),
                    ]
                    if any(_overlap(a, one.count, b, two.count) for a, b in pairs):
                        found.append((place, other))
        return found

    def before(self):
        """Return for each step all those that have ended when it begins."""
        sent = {}
        before = {}
        for gpu, block, number in self.order:
            place = gpu, block, number
            step = self.step(place)
            direct = [(gpu, block, number - 1)] if number else []
            if step.wait is not None:
                direct.append((gpu, *step.wait))
            if "r" in step.kind and step.kind != "re":
                direct.append(sent[(gpu - 1) % self.gpus, block].pop(0))
            if step.kind in SENDING:
                sent.setdefault((gpu, block), []).append(place)
            before[place] = set(direct).union(*(before[d] for d in direct))
        return before


SENDING = ("s", "rcs", "rrs", "rrcs")


def _overlap(one, one_count, other, other_count):
    if one is None or other is None or one[0] != other[0]:
        return False
    return one[1] < other[1] + other_count and other[1] < one[1] + one_count


def _xml(number, step):
    wait = step.wait or (-1, -1)
    return (
        f'<step s="{number}" type="{step.kind}" srcbuf="{step.src[0]}" srcoff="{step.src[1]}" '
        f'dstbuf="{step.dst[0]}" dstoff="{step.dst[1]}" cnt="{step.count}" depid="{wait[0]}" '
        f'deps="{wait[1]}" hasdep="0"/>'
    )


def random_program(rng):
    """Return a program of some transfers and local steps that runs to its end."""
    program = Program(int(rng.integers(2, 4)))
    waiting = []  # (gpu, block, count) of what was sent and not received
    for _ in range(int(rng.integers(2, 9))):
        gpu, block = int(rng.integers(program.gpus)), int(rng.integers(BLOCKS))
        if rng.random() < 0.25:
            program.add(gpu, block, _random_step(rng, program, gpu, ["cpy", "re", "nop"]))
            continue
        step = _random_step(rng, program, gpu, ["s"])
        program.add(gpu, block, step)
        waiting.append(((gpu + 1) % program.gpus, block, step.count))
        while waiting and rng.random() < 0.6:
            _receive(rng, program, waiting)
    while waiting:
        _receive(rng, program, waiting)
    return program


def _receive(rng, program, waiting):
    """Let a gpu take the first of what waits in one of its queues, and send it on at times."""
    gpu, block, _ = waiting[int(rng.integers(len(waiting)))]
    first = next(entry for entry in waiting if entry[:2] == (gpu, block))
    waiting.remove(first)
    kinds = ["r", "r", "rrc", "rcs", "rrs", "rrcs"] if len(program.order) < 14 else ["r", "rrc"]
    step = _random_step(rng, program, gpu, kinds, first[2])
    program.add(gpu, block, step)
    if step.kind in SENDING:
        waiting.append(((gpu + 1) % program.gpus, block, step.count))


def _random_step(rng, program, gpu, kinds, count=None):
    count = int(rng.integers(1, 3)) if count is None else count
    while True:
        src, dst = (
            (BUFFERS[rng.integers(3)], int(rng.integers(CHUNKS - count + 1))) for _ in range(2)
        )
        if src[0] != dst[0] or abs(src[1] - dst[1]) >= count:
            break
    step = Step(str(rng.choice(kinds)), src, dst, count)
    if step.kind.startswith("rr") and rng.random() < 0.5:
        step.src = step.dst
    others = [place[1:] for place in program.order if place[0] == gpu]
    if others and rng.random() < 0.7:
        step.wait = others[-1 - int(rng.integers(min(len(others), 2)))]
    return step
