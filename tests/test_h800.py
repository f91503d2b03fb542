"""The cluster of H800 nodes: ways, rates, and DeepEP's published rows."""

import json

import numpy as np
import pytest

from ubnet.cli.main import run_command
from ubnet.collectives.expert_parallel import ExpertParallel
from ubnet.collectives.fused_model import H800, model_of
from ubnet.collectives.routing import Routing
from ubnet.errors import NoRoute, OptionError
from ubnet.fabrics import load_fabric
from ubnet.idle_time import idle_times
from ubnet.place import place_ranks
from ubnet.proof import check_fabric

TABLE_7 = {"dispatch": {8: 163, 32: 182, 256: 194}, "combine": {8: 318, 32: 350, 256: 360}}
"""P, Table 7: DeepEP on H800, microseconds by EP."""


@pytest.fixture(scope="module")
def fabric():
    return load_fabric("h800")


def timed(fabric, op, ranks, transport):
    run = ExpertParallel(op, fabric, np.arange(ranks), Routing("balanced"), quant="fp8")
    return run.timing(transport)


@pytest.mark.parametrize("op", TABLE_7)
def test_the_published_rows_within_five_percent(fabric, op):
    times = [timed(fabric, op, ranks, "ibgda").time_ps / 1e6 for ranks in TABLE_7[op]]
    assert times == pytest.approx(list(TABLE_7[op].values()), rel=0.05)
    assert times == sorted(times)


@pytest.mark.parametrize("op", TABLE_7)
def test_nvlink_inside_is_faster_the_more_peers_are_near(fabric, op):
    gain = [
        timed(fabric, op, ranks, "ibgda").time_ps / timed(fabric, op, ranks, "nvlink").time_ps
        for ranks in (8, 32, 256)
    ]
    assert gain == sorted(gain, reverse=True)
    assert gain[0] > 2
    assert gain[2] > 1


def test_the_model_is_that_of_the_chips(fabric, cloudmatrix):
    assert model_of(fabric) is H800
    assert model_of(cloudmatrix) is not H800
    fitted = [s for s in H800.sources.values() if s.startswith("fitted")]
    assert len(fitted) == 1


def test_ways_use_the_cards_or_nvlink(fabric):
    first, near, rail, far = 0, 1, 8, 9
    for transport, others in (("ibgda", ("nic", "leaf")), ("nvlink", ("nvlink",))):
        columns = fabric.transport(transport).flows(fabric, "write", first, near, 1000)
        names = [fabric.resource_names[r] for r in columns.route_link]
        assert all(any(o in name for o in others) for name in names)
    for target, spines in ((rail, 0), (far, 2)):
        columns = fabric.transport("nvlink").flows(fabric, "write", first, target, 1000)
        names = [fabric.resource_names[r] for r in columns.route_link]
        assert sum("leaf" in name for name in names) == spines
        assert "node00.gpu0.nic_write" in names
    gib = 1 << 30
    times = {
        t: int(idle_times(fabric, fabric.transport(t), first, near, gib)[0])
        for t in ("ibgda", "nvlink")
    }
    assert gib / times["nvlink"] * 1e3 == pytest.approx(160, rel=0.01)
    assert gib / times["ibgda"] * 1e3 == pytest.approx(47, rel=0.01)


def test_a_node_that_is_one_package_is_called_a_node(capsys):
    assert run_command(["topo", "show", "h800"]) == 0
    assert run_command(["topo", "check", "h800"]) == 0
    assert run_command(["topo", "list"]) == 0
    out = capsys.readouterr().out
    assert "any two nodes get the same bandwidth" in out
    assert "NPUs (packages)" not in out
    assert ["h800", "32", "256", "256", "0"] in [line.split()[:5] for line in out.splitlines()]


def test_near_is_inside_a_node(capsys):
    assert run_command(["bench", "p2p", "--fabric", "h800", "--sizes", "1MiB", "--json"]) == 0
    near = [json.loads(line) for line in capsys.readouterr().out.splitlines()][::2]
    assert [row["case"] for row in near] == ["read near", "write near"]
    assert all("nvlink" in row["busiest_link"] for row in near)


def test_the_fabric_is_sound(fabric):
    assert len(place_ranks(fabric, 256)) == 256
    for finding in check_fabric(load_fabric("h800", nodes=3)):
        assert finding.verdict != "FAULT", finding


def test_many_nodes_have_several_leaves_a_rail():
    big = load_fabric("h800", nodes=40)
    assert sum(s.tier == "rail leaf" for s in big.switches) == 16
    with pytest.raises(OptionError, match="nodes is 300"):
        load_fabric("h800", nodes=300)
    with pytest.raises(NoRoute, match="no transport 'aiv'"):
        big.transport("aiv")
