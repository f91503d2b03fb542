"""Where experts stand: replicas in turn, shared experts, EPLB, and what a placement recovers."""

import numpy as np
import pytest

from ubnet.collectives.expert_parallel import ExpertParallel, default_experts, replicated
from ubnet.collectives.gate import Gate
from ubnet.collectives.moe_run import run_moe
from ubnet.collectives.placement import (
    Placement,
    balanced_placement,
    plain_placement,
    shared_placement,
)
from ubnet.collectives.real_payload import wrong_combine, wrong_dispatch
from ubnet.collectives.routing import Routing
from ubnet.errors import OptionError


def test_a_plain_placement_changes_nothing():
    table, _ = Routing("uniform", 16, 4, seed=1).of(0, 50)
    assert np.array_equal(plain_placement(16, 4).slots_of(table, 3), table)


def test_every_slot_holds_its_expert_and_replicas_differ_by_one_at_most():
    rng = np.random.default_rng(0)
    expert_of = rng.permutation(np.concatenate([np.arange(6), [2, 2, 4, 0, 2, 1]]))
    placement = Placement(expert_of, ranks=4)
    for rank in range(4):
        table = Routing("zipf", 6, 3, seed=2).of(rank, 40)[0]
        table[rng.random(table.shape) < 0.2] = -1
        slots = placement.slots_of(table, rank)
        assert np.array_equal(slots < 0, table < 0)
        assert np.array_equal(expert_of[slots[slots >= 0]], table[table >= 0])
        for expert in range(6):
            used = np.bincount(slots[table == expert], minlength=12)[expert_of == expert]
            assert used.max() - used.min() <= 1


def test_the_shared_expert_takes_every_token_with_weight_one():
    placement = shared_placement(12, ranks=8, shared_ranks=2)
    gate = Gate(Routing("uniform", 12, 3, seed=3), 8, placement)
    for rank in range(8):
        slots, weights = gate.of(rank, 5)
        assert slots.shape == weights.shape == (5, 4)
        assert (weights[:, 3] == 1).all()
        assert (slots[:, 3] == (0 if rank < 4 else 2)).all()
        assert (slots[:, :3] >= 4).all()
    tokens = np.full(8, 5)
    for layout in ("expert", "padded", "rank"):
        gate = Gate(Routing("uniform", 12, 3, seed=3), 8, placement, layout)
        assert wrong_dispatch(gate, tokens, 16, "int8") == 0
        assert wrong_combine(gate, tokens, 16) == 0


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("replicas", [0, 8, 24])
def test_eplb_fills_every_slot_and_brings_the_fullest_rank_down(ranks, replicas):
    experts = ranks * 9 - replicas % ranks
    loads = np.random.default_rng(ranks).zipf(1.5, experts).clip(max=1000).astype(float)
    placement = balanced_placement(loads, ranks, replicas)
    assert placement.slots == experts + replicas
    assert placement.replicas.sum() == experts + replicas
    assert (placement.replicas >= 1).all()
    total = placement.rank_loads(loads)
    assert total.sum() == pytest.approx(loads.sum())
    # Longest processing time first: no rank is above the mean by more than one copy's load.
    assert total.max() <= loads.sum() / ranks + (loads / placement.replicas).max()


def test_replicas_of_one_expert_stand_on_different_ranks():
    placement = balanced_placement([100, 1, 1, 1, 1, 1, 1, 1], ranks=4, replicas=4)
    rank_of = np.arange(12) // 3
    assert len(set(rank_of[placement.expert_of == 0])) == min(4, placement.replicas[0])


def test_real_bytes_through_replicas():
    routing = Routing("balanced", 16, 4, skew=3, seed=5)
    placement = replicated(routing, 8, 20, 8)
    gate = Gate(routing, 8, placement)
    tokens = np.full(8, 20)
    assert wrong_dispatch(gate, tokens, 24, "int8") == 0
    assert wrong_combine(gate, tokens, 24) == 0


def test_the_hottest_expert_at_thirty_times_the_mean_and_what_eplb_recovers(cloudmatrix):
    """EP 32, 256 experts: with 32 replicas on the same ranks nearly all of it comes back."""
    for op in ("dispatch", "combine"):
        times = {
            name: run_moe(op, cloudmatrix, np.arange(32), experts=256, real=False, **options)
            for name, options in {
                "even": {},
                "hot": {"skew": 30},
                "eplb": {"skew": 30, "replicas": 32},
            }.items()
        }
        assert times["hot"].hottest == pytest.approx(30)
        assert times["eplb"].hottest < 3
        even, hot, eplb = (t.timing.time_ps for t in times.values())
        assert hot > 2 * even
        assert (hot - eplb) / (hot - even) > 0.95


def test_default_experts_leave_room_for_replicas(cloudmatrix):
    assert default_experts(32, 32) == 256
    assert default_experts(320, 64) == 256
    run = run_moe("dispatch", cloudmatrix, np.arange(24), tokens=2, hidden=8, replicas=5)
    assert run.wrong == 0


def test_what_does_not_fit_is_named(cloudmatrix):
    with pytest.raises(OptionError, match=r"10 expert slots on 4 ranks: .* such as 12"):
        Placement(np.arange(10), 4)
    with pytest.raises(OptionError, match="expert 1 has no slot"):
        Placement(np.array([0, 2]), 2)
    with pytest.raises(OptionError, match="give 2 replicas, or 6"):
        balanced_placement(np.ones(10), 4, 1)
    with pytest.raises(OptionError, match="the other ranks"):
        shared_placement(10, 4, 1)
    with pytest.raises(OptionError, match="the placement is for 8 experts on 4 ranks"):
        Gate(Routing("balanced", 16), 4, plain_placement(8, 4))
    with pytest.raises(OptionError, match="no layout 'rnak'; did you mean rank"):
        Gate(Routing("balanced", 16), 4, layout="rnak")
    with pytest.raises(OptionError, match="no method 'fusd'"):
        ExpertParallel("combine", cloudmatrix, np.arange(2), Routing(), method="fusd")
