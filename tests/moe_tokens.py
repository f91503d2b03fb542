"""Tokens, routings and exact results for the tests of the MoE faces."""

import ml_dtypes
import numpy as np
from worlds import fabric

from ubnet.collectives.expert_parallel import ExpertParallel
from ubnet.collectives.routing import Routing

BF16 = ml_dtypes.bfloat16
HIDDEN = 256


def tokens_of(rank, count, hidden=HIDDEN):
    rng = np.random.default_rng([7, rank])
    return rng.integers(-60, 61, (count, hidden)).astype(BF16)


def routing(ranks, local=2, topk=3):
    return Routing("uniform", ranks * local, min(topk, ranks * local), seed=3)


def factor(expert):
    return 1 + expert % 3


def weighted(x, index, weights, experts_do=factor):
    """What a combine gives, by plain numpy, exact for small whole numbers."""
    total = np.where(index >= 0, weights * experts_do(index), 0).sum(axis=1, dtype=np.float32)
    return (x.astype(np.float32) * total[:, None]).astype(BF16)


def core_times(ranks, tokens, quant, experts, topk=3, layout="expert", seed=3):
    gate = Routing("uniform", experts, topk, seed=seed)
    return [
        ExpertParallel(op, fabric(), np.arange(ranks), gate, tokens, HIDDEN, quant, layout=layout)
        .timing("aiv")
        .time_ps
        for op in ("dispatch", "combine")
    ]
