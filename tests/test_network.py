"""The network of a world: whatever runs without the flow engine ends when the engine says."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import fabric, run

from ubnet.flowsim import FlowSim
from ubnet.memory import capacity_with_memory
from ubnet.message import Collective, Phantom
from ubnet.mpi.schedules import even
from ubnet.network import Event, Network
from ubnet.passages import Passages
from ubnet.plans import Plans
from ubnet.rank import Rank
from ubnet.transport import READ, WRITE

TRANSFER = st.tuples(
    st.sampled_from([WRITE, READ]),
    st.integers(0, 19),
    st.integers(0, 19),
    st.sampled_from([0, 1, 8, 1000, 70_000, 1 << 20]),
    st.integers(0, 4_000_000),
)


def drive(transfers: list[tuple[Any, ...]]) -> tuple[dict[Any, int], np.ndarray]:
    """Run transfers through a network; return when each has left and arrived, and the loads."""
    network = Network(capacity_with_memory(fabric()), Passages(fabric(), "aiv"))
    seen: dict[Any, int] = {}

    def event(number: int, order: int) -> Event:
        def handle(key: tuple[int, int]) -> None:
            seen[key] = network.now_ps

        return 0, 0, number, order, handle, (number, order)

    todo = sorted(enumerate(transfers), key=lambda row: row[1][-1])
    while todo or network.pending:
        limit = todo[0][1][-1] if todo else None
        while todo and todo[0][1][-1] == network.now_ps:
            number, (op, src, dst, nbytes, _) = todo.pop(0)
            if op == WRITE:
                network.write(src, dst, nbytes, event(number, 1), event(number, 2))
            else:
                network.read(src, dst, nbytes, event(number, 2), "data")
            limit = network.now_ps
        for happened in network.advance(limit):
            *_, handle, subject = happened
            handle(subject)
    return seen, network.link_bytes()


def engine_alone(transfers: list[tuple[Any, ...]]) -> tuple[dict[Any, int], np.ndarray]:
    """Do the same with every flow in the flow engine from the start."""
    sim, seen = FlowSim(capacity_with_memory(fabric())), {}
    later = {}
    for number, (op, src, dst, nbytes, start) in enumerate(transfers):
        flow = fabric().transport("aiv").flows(fabric(), op, src, dst, nbytes)
        later[number] = int(flow.latency_ps[0]) if op == WRITE else 0
        sim.post(
            flow.nbytes,
            flow.route_ptr,
            flow.route_link,
            flow.route_share,
            start_ps=start,
            startup_ps=flow.startup_ps - later[number],
            rate_cap=flow.rate_cap,
        )
    sim.run()
    for number, end in enumerate(sim.finish_ps.tolist()):
        if transfers[number][0] == WRITE:
            seen[number, 1] = end
        seen[number, 2] = end + later[number]
    return seen, sim.link_bytes()


@settings(max_examples=60, deadline=None)
@given(st.lists(TRANSFER, min_size=1, max_size=12))
def test_transfers_end_when_the_engine_says(transfers: list[tuple[Any, ...]]) -> None:
    seen, loads = drive(transfers)
    wanted, carried = engine_alone(transfers)
    assert seen == wanted
    np.testing.assert_allclose(loads, carried, rtol=1e-12)


def test_a_transfer_alone_does_not_wake_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [(WRITE, 0, 2, 8, 0), (READ, 4, 6, 1 << 20, 0)]
    wanted = engine_alone(alone)[0]
    monkeypatch.setattr(FlowSim, "post", None)
    assert drive(alone)[0] == wanted


@pytest.mark.parametrize("transport", ["auto", "aiv", "sdma"])
@pytest.mark.parametrize("op", [WRITE, READ])
def test_passages_made_together_are_those_made_alone(transport: str, op: str) -> None:
    dice = np.random.default_rng(3)
    sizes = (0, 1, 8, 70_000, 64 << 20)
    keys = [
        (int(src), int(dst), int(dice.choice(sizes)), op)
        for src, dst in dice.integers(128, size=(60, 2))
    ]
    together, alone = Passages(fabric(), transport), Passages(fabric(), transport)
    together.prepare(keys)
    assert together.keys() == set(keys)
    for key in keys:
        one, other = together[key], alone[key]
        assert (one.startup_ps, one.latency_ps) == (other.startup_ps, other.latency_ps)
        assert (one.alone_ps, one.loads) == (other.alone_ps, other.loads)
        for name in ("nbytes", "startup_ps", "route_ptr", "route_link", "route_share", "rate_cap"):
            assert getattr(one.flow, name).tolist() == getattr(other.flow, name).tolist()


def calls(
    comm_group: tuple[int, ...], kinds: list[int], delays: list[int], rank: Rank
) -> list[int]:
    """Call small collectives one after another, with messages in between; return the times."""
    times = []
    for kind, delay in zip(kinds, delays, strict=True):
        if delay:
            rank.compute(delay * rank.number * 1e-9)
        if kind == 2:
            other = rank.number ^ 1
            got = rank.irecv(other, 0, 0)
            rank.wait([rank.isend(other, 0, 0, Phantom(100_000)), got])
        else:
            maker = partial(even, operation="all_reduce", count=500, itemsize=4)
            call = Collective(0, comm_group, "all_reduce", (), maker, itemsize=4)
            pending = rank.start(call)
            if kind == 1:  # a message gets in the way of the operation
                rank.compute(600e-9)
                rank.isend((rank.number + 2) % len(comm_group), 6, 0, Phantom(60_000))
            rank.wait([pending])
        times.append(rank.now_ps)
    return times


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=2, max_size=6),
    st.lists(st.sampled_from([0, 0, 0, 40]), min_size=6, max_size=6),
)
def test_what_is_repeated_takes_the_time_that_it_takes(kinds: list[int], delays: list[int]) -> None:
    main = partial(calls, tuple(range(4)), kinds, delays[: len(kinds)])
    repeated = run(main, 4)
    with pytest.MonkeyPatch.context() as patch:
        forget_outcomes(patch)
        afresh = run(main, 4)
    assert repeated.values == afresh.values
    assert repeated.digest == afresh.digest
    assert repeated.report == pytest.approx(afresh.report, rel=1e-12)


def forget_outcomes(patch: pytest.MonkeyPatch) -> None:
    """Let every operation find out anew what happens."""
    plan = Plans.plan

    def forgetful(self: Plans, *args: Any) -> Any:
        found = plan(self, *args)
        found.outcome = None
        return found

    patch.setattr(Plans, "plan", forgetful)
