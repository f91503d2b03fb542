"""Rows of dispatch and combine: each is timed, run on real tokens and checked."""

import math
from dataclasses import dataclass

import numpy as np

from ubnet.cli.memory import check_memory, moves_bytes
from ubnet.cli.notes import WITHOUT_BYTES, long_work
from ubnet.cli.options import Way
from ubnet.collectives.expert_parallel import (
    COMBINE,
    DISPATCH,
    FUSED,
    ExpertParallel,
    default_experts,
    replicated,
)
from ubnet.collectives.gate import EXPERT
from ubnet.collectives.quantise import BF16_BYTES
from ubnet.collectives.routing import Routing
from ubnet.collectives.staged import FusedTiming
from ubnet.collectives.workload import late_starts, uneven_tokens
from ubnet.place import place_ranks
from ubnet.report.row import Row


@dataclass(frozen=True, slots=True)
class Experts:
    """What is dispatched and combined; the options of ``ubnet bench moe``.

    Attributes
    ----------
    experts : int or None
        A multiple of the ranks; None = 256 or the next multiple above.
    tokens, topk, hidden : int
        Tokens of each rank, experts of each token, channels.
    quant, routing : str
        What dispatch sends, and who chooses the experts.
    skew : float or None
        The hottest expert over the mean.
    seed : int
        Of routing and tokens.
    layout : str
        How rows lie where they arrive.
    algo : str
        Fused operators, or all-to-alls one after the other.
    replicas : int
        Slots for replicas of experts.
    uneven : float
        By which part of `tokens` the ranks' own numbers differ from it at most.
    late_ps : int
        By how much the last rank calls later than the first at most.
    """

    experts: int | None = None
    tokens: int = 128
    topk: int = 8
    hidden: int = 7168
    quant: str = "int8"
    routing: str = "balanced"
    skew: float | None = None
    seed: int = 1
    layout: str = EXPERT
    algo: str = FUSED
    replicas: int = 0
    uneven: float = 0.0
    late_ps: int = 0

    def experts_on(self, ranks: int) -> int:
        """Return how many experts there are on so many ranks."""
        return default_experts(ranks, self.replicas) if self.experts is None else self.experts

    def check_payload(self, op: str, ranks: int) -> None:
        """Refuse real bytes that cannot fit, before it is known who sends what to whom."""
        if op == DISPATCH:
            fewest = ranks * math.floor(self.tokens * (1 - self.uneven))
            sent = fewest * self.hidden * (BF16_BYTES if self.quant == "none" else 1)
            moves_bytes("real", sent, f"{op} on {ranks} ranks")

    def run(self, way: Way, op: str, ranks: int) -> ExpertParallel:
        """Return one operator of this layer between the first `ranks` dies."""
        routing = Routing(self.routing, self.experts_on(ranks), self.topk, self.skew, self.seed)
        generator = np.random.default_rng(self.seed)
        most = routing.memory_bytes(math.ceil(self.tokens * (1 + max(self.uneven, 0))))
        check_memory(most, f"routing {self.tokens} tokens of a rank", "give fewer --tokens")
        tokens = uneven_tokens(self.tokens, self.uneven, ranks, generator)
        return ExpertParallel(
            op,
            way.fabric,
            place_ranks(way.fabric, ranks),
            routing,
            tokens,
            self.hidden,
            self.quant,
            layout=self.layout,
            placement=replicated(routing, ranks, tokens, self.replicas),
            start_ps=late_starts(self.late_ps, ranks, generator),
            method=self.algo,
        )


def moe_row(way: Way, op: str, layer: Experts, ranks: int, payload: str) -> Row:
    """Time one dispatch or combine, run it on real tokens and return its row.

    Parameters
    ----------
    way : Way
        Fabric, plane and transport.
    op : {"dispatch", "combine"}
        The operator.
    layer : Experts
        Tokens, experts and routing.
    ranks : int
        Ranks of expert parallelism, rank r on die r.
    payload : {"auto", "real", "size"}
        Whether bytes are moved and checked.
    """
    run = layer.run(way, op, ranks)
    return row_of(run, run.timing(way.transport, way.plane), payload)


def row_of(run: ExpertParallel, timing: FusedTiming, payload: str) -> Row:
    """Run an operator that was timed on real tokens, if `payload` says so, and return its row."""
    op, ranks = run.op, run.ranks
    what, wrong = f"{op} on {ranks} ranks", None
    if moves_bytes(payload, run.peak_bytes, what):
        with long_work(f"checking {what}", WITHOUT_BYTES) as show:
            wrong = run.wrong(show)
    return Row.timed(
        timing.time_ps,
        run.size_bytes,
        (ranks - 1) / ranks,
        op=op,
        case=f"ep{ranks}",
        algorithm=run.method,
        transport=timing.transport,
        plane=timing.plane,
        ranks=ranks,
        wrong=wrong,
        efficiency=timing.efficiency,
        busiest_link=timing.busiest,
        busiest_link_utilisation=timing.busiest_utilisation,
        count=run.size_bytes // run.copy_bytes * run.hidden,
        dtype=run.quant if op == DISPATCH and run.quant != "none" else "bfloat16",
        redop="sum" if op == COMBINE else "none",
    )
