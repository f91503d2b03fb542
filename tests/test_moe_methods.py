"""Unfused operators and two hops: what they carry, and how they compare."""

import numpy as np
import pytest

from ubnet.collectives.expert_parallel import ExpertParallel
from ubnet.collectives.routing import Routing
from ubnet.errors import OptionError
from ubnet.fabrics import load_fabric


@pytest.fixture(scope="module")
def h800():
    return load_fabric("h800", nodes=8)


def made(fabric, op, ranks, **options):
    gate = Routing(options.pop("routing", "uniform"), 256, seed=2)
    return ExpertParallel(op, fabric, np.arange(ranks), gate, **options)


def carried(fabric, timing, part):
    names = np.array(fabric.resource_names)
    mine = np.char.endswith(names, part)
    return timing.resource_bytes[mine]


@pytest.mark.parametrize("op", ["dispatch", "combine"])
def test_two_hops_carry_a_token_once_to_each_node(h800, op):
    run = made(h800, op, 32, tokens=200, quant="fp8", layout="rank", method="forwarded")
    timing = run.timing("nvlink")
    nodes = np.zeros((32, 4), np.int64)
    near = 0
    for rank in range(32):
        table = run.routing.of(rank, 200)[0] // 8
        for node in range(4):
            hit = (table // 8 == node).any(axis=1).sum()
            nodes[rank, node] = hit
            for target in range(node * 8, node * 8 + 8):
                # Who stands where the token arrives in the node hands nothing on.
                if target != node * 8 + rank % 8:
                    near += (table == target).any(axis=1).sum()
        nodes[rank, rank // 8] = 0
    size = run.copy_bytes
    sent, got = carried(h800, timing, ".nic.up"), carried(h800, timing, ".nic.down")
    one, other = (sent, got) if op == "dispatch" else (got, sent)
    assert one[:32] == pytest.approx(nodes.sum(axis=1) * size)
    assert other.sum() == pytest.approx(nodes.sum() * size)
    assert carried(h800, timing, ".nvlink.up").sum() == pytest.approx(near * size)


@pytest.mark.parametrize("op", ["dispatch", "combine"])
def test_two_hops_pay_between_nodes_and_change_nothing_inside_one(h800, op):
    for ranks, least, most in ((8, 0.9, 1.1), (16, 1.3, 3.0), (32, 1.3, 3.0)):
        times = [
            made(h800, op, ranks, tokens=512, quant="fp8", layout="rank", method=method)
            .timing("nvlink")
            .time_ps
            for method in ("fused", "forwarded")
        ]
        assert least < times[0] / times[1] < most


@pytest.mark.parametrize("op", ["dispatch", "combine"])
@pytest.mark.parametrize("method", ["fused", "unfused", "forwarded"])
def test_no_link_is_overfull_and_nothing_ends_before_it_could(h800, op, method):
    run = made(h800, op, 16, tokens=64, layout="rank", method=method)
    timing = run.timing("nvlink")
    most = h800.capacity * timing.time_ps / 1e12
    assert (timing.resource_bytes <= most * (1 + 1e-9)).all()
    assert 0 < timing.efficiency <= 1
    assert (timing.waiting_ps >= 0).all()


def test_each_option_of_the_unfused_form_costs(cloudmatrix):
    def time(**options):
        run = made(cloudmatrix, "dispatch", 16, method="unfused", **options)
        return run.timing("aiv").time_ps

    assert time() < time(static=False) < time(static=False, early=False)
    assert time(static=False) - time() == 20_000_000
    assert time(quant="none") == time(quant="none", early=False)


def test_late_quantising_is_paid_by_who_receives(cloudmatrix):
    early, late = (
        made(cloudmatrix, "dispatch", 16, early=early).timing("aiv") for early in (True, False)
    )
    assembling = [t.rank_end_ps - t.stage_end_ps["arrived"] for t in (early, late)]
    assert (assembling[1] > assembling[0]).all()
    assert late.sent_bytes(16).sum() / early.sent_bytes(16).sum() == pytest.approx(14336 / 7680)


def test_what_two_hops_cannot_do_is_named(h800, cloudmatrix):
    with pytest.raises(OptionError, match="give layout 'rank', not 'expert'"):
        made(h800, "dispatch", 16, method="forwarded").timing("nvlink")
    gate, ends = Routing("balanced", 256), np.r_[0:12, 16:20]
    options = {"layout": "rank", "method": "forwarded"}
    uneven = ExpertParallel("dispatch", cloudmatrix, ends, gate, **options)
    with pytest.raises(OptionError, match=r"on 2 nodes there are 4 to 12: give a multiple of 12"):
        uneven.timing("aiv")
