import subprocess
import sys

import numpy as np
import pytest

from ubnet import idle_time
from ubnet.errors import FabricError, NoRoute, OptionError
from ubnet.fabric import Fabric
from ubnet.fabrics import load_fabric
from ubnet.flow_ends import simulate_flows
from ubnet.flow_engine import state
from ubnet.idle_time import choose_transport, idle_times
from ubnet.transfer import transfer_time

NEAR, FAR, MATE, CPU_NEAR, CPU_FAR = 2, 767, 1, 768, 959


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return load_fabric("cloudmatrix384")


def test_the_closed_form_rounds_like_the_engine() -> None:
    assert idle_time.ROUND_UP == state.ROUND_UP


@pytest.mark.parametrize("op", ["read", "write"])
@pytest.mark.parametrize("transport", ["aiv", "sdma", "urma", "roce", "vpc"])
def test_a_transfer_takes_what_the_engine_answers(fabric: Fabric, transport: str, op: str) -> None:
    chosen = fabric.transport(transport)
    rng = np.random.default_rng(1)
    sizes = np.concatenate([[0, 1, 512, 4096, 64 << 20], rng.integers(0, 1 << 24, 40)])
    ends = [0, MATE, NEAR, FAR] if transport == "roce" else [0, MATE, NEAR, FAR, CPU_NEAR, CPU_FAR]
    dst = rng.choice(ends, len(sizes))
    want = []
    for end, size in zip(dst, sizes, strict=True):
        c = chosen.flows(fabric, op, 0, end, size)
        route = (c.route_ptr, c.route_link, c.route_share)
        caps = {"rate_cap": c.rate_cap, "startup_ps": c.startup_ps}
        want.append(int(simulate_flows(fabric.capacity, 0, c.nbytes, *route, **caps)[0]))
    assert idle_times(fabric, chosen, 0, dst, sizes, op).tolist() == want
    one = transfer_time(0, int(dst[7]), int(sizes[7]), op=op, transport=transport, fabric=fabric)
    assert one == want[7]


@pytest.mark.parametrize(
    ("op", "dst", "latency_us", "rate"),
    [
        ("read", FAR, 1.9, 164e9),
        ("read", NEAR, 1.2, 167e9),
        ("write", FAR, 2.1, 135e9),
        ("write", NEAR, 1.3, 137e9),
        ("read", CPU_FAR, 1.7, 147e9),
        ("read", CPU_NEAR, 1.0, 151e9),
        ("write", CPU_FAR, 1.9, 107e9),
        ("write", CPU_NEAR, 1.1, 110e9),
    ],
)
def test_table_1_of_the_paper(op: str, dst: int, latency_us: float, rate: float) -> None:
    src, dst = (dst, 0) if op == "read" else (0, dst)
    assert round(transfer_time(src, dst, 512, op=op, transport="aiv") * 1e-6, 1) == latency_us
    size = 64 << 20
    assert size / (transfer_time(src, dst, size, op=op) * 1e-12) == pytest.approx(rate, rel=0.01)


def test_names_numbers_and_fabrics_mean_the_same(fabric: Fabric) -> None:
    by_name = transfer_time("node00.npu0.die0", "node47.npu7.die1", 4096)
    assert by_name == transfer_time(0, 767, 4096, fabric=fabric) == transfer_time(0, 767, 4096)
    assert transfer_time(np.int64(0), np.int64(767), np.int64(4096)) == by_name
    assert transfer_time(0, 511, 4096, fabric="cloudmatrix384") == by_name
    assert type(by_name) is int


def test_to_oneself_takes_no_time() -> None:
    assert transfer_time(5, 5, 1 << 30) == 0


def test_mistakes_are_named() -> None:
    with pytest.raises(FabricError, match=r"no endpoint 'node00\.npu0\.die7'; did"):
        transfer_time("node00.npu0.die7", 0, 1)
    with pytest.raises(FabricError, match="no endpoint 960; its numbers are 0 to 959"):
        transfer_time(0, 960, 1)
    with pytest.raises(FabricError, match="no endpoint -1"):
        transfer_time(0, -1, 1)
    for wrong in (-1, 1.5, "4KiB", 2**50 + 1, 2**70):
        with pytest.raises(OptionError, match="whole number of bytes"):
            transfer_time(0, 1, wrong)  # type: ignore[arg-type]
    for wrong_end in (1.0, None):
        with pytest.raises(FabricError, match="by name or by number"):
            transfer_time(0, wrong_end, 1)  # type: ignore[arg-type]
    with pytest.raises(NoRoute, match="no transport 'sdna'; did you mean sdma"):
        transfer_time(0, 1, 1, transport="sdna")
    with pytest.raises(OptionError, match="op is 'push'"):
        transfer_time(0, 1, 1, op="push")
    with pytest.raises(NoRoute):
        transfer_time(0, CPU_NEAR, 1, transport="roce")
    with pytest.raises(FabricError, match="did you mean"):
        transfer_time(0, 1, 1, fabric="cloudmatrix385")


def test_auto_takes_the_least_time_and_says_why(fabric: Fabric) -> None:
    slow = load_fabric("cloudmatrix384", aiv_cores=8)
    for size in [512 << k for k in range(18)]:
        by_name = {
            name: int(idle_times(slow, slow.transport(name), 0, FAR, size)[0])
            for name in ("aiv", "sdma")
        }
        chosen, reason = choose_transport(slow, 0, FAR, size)
        assert by_name[chosen.name] == min(by_name.values())
        assert all(name in reason for name in by_name)
        assert transfer_time(0, FAR, size, fabric=slow) == min(by_name.values())
    assert choose_transport(slow, 0, FAR, 512)[0].name == "aiv"
    assert choose_transport(slow, 0, FAR, 64 << 20)[0].name != "aiv"
    assert choose_transport(fabric, 0, FAR, 64 << 20)[0].name == "aiv"
    assert choose_transport(fabric, 5, 5, 512)[0].name == "aiv"
    assert choose_transport(fabric, 0, FAR, 512, plane="rdma")[0].name == "roce"
    with pytest.raises(NoRoute, match="no plane 'udb'"):
        choose_transport(fabric, 0, FAR, 512, plane="udb")
    with pytest.raises(NoRoute):
        choose_transport(fabric, 0, CPU_FAR, 512, plane="rdma")


def test_the_question_needs_no_compiler() -> None:
    line = "import sys; from ubnet.transfer import transfer_time as t; t(0, 1, 512);"
    line += "sys.exit(any(m in sys.modules for m in ('numba', 'networkx', 'click', 'mpi4py')))"
    assert subprocess.run([sys.executable, "-c", line], check=False).returncode == 0
