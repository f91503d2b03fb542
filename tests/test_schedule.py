import time
from typing import Any

import numpy as np
import pytest

from ubnet.errors import ScheduleError
from ubnet.schedule import COPY, INPUT, JOIN, OUTPUT, REDUCE, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder


def mesh_all_to_all(ranks: int, count: int) -> Schedule:
    """Build the direct all-to-all: own block local, every other one message."""
    builder = ScheduleBuilder("all_to_all mesh", ranks, [ranks * count, ranks * count, 0])
    here = np.arange(ranks)
    builder.add(0, here, here, here * count, here * count, count)
    k = np.arange(1, ranks)
    src = np.repeat(here, ranks - 1)
    dst = (src + np.tile(k, ranks)) % ranks
    builder.add(0, src, dst, dst * count, src * count, count)
    return builder.build()


def test_columns_are_broadcast_and_numbered() -> None:
    builder = ScheduleBuilder("x", 3, [6, 6, 6])
    ids = builder.add(0, np.arange(3)[:, None], [[1, 2]], 0, [[0, 2]], 2, dst_buf=SCRATCH)
    assert ids.tolist() == [[0, 1], [2, 3], [4, 5]]
    one = builder.add(1, 0, 1, 0, 0, 1, after=[4, -1, 5])
    assert one.tolist() == [6]
    join = builder.join(2, [0, 1], after=[[0, 6], [1, -1]])
    assert join.tolist() == [7, 8]
    csr = builder.add(3, [0, 1], [1, 2], 0, 0, 1, after=([0, 0, 2], [7, 8]))
    assert csr.tolist() == [9, 10]
    s = builder.build()
    assert len(s) == 11
    assert s.src.tolist()[:6] == [0, 0, 1, 1, 2, 2]
    assert s.dst_off.tolist()[:6] == [0, 2] * 3
    assert s.kind.tolist()[7:] == [JOIN, JOIN, COPY, COPY]
    assert np.diff(s.dep_ptr).tolist() == [0] * 6 + [2, 2, 1, 0, 2]
    assert s.dep.tolist() == [4, 5, 0, 6, 1, 7, 8]
    assert [a.dtype.name for a in (s.kind, s.step, s.src)] == ["int8", "int32", "int64"]
    assert (
        s.transfers.tolist()
        == [True, True, False, True, True, False] + [True] + [False] * 2 + [True] * 2
    )


def test_an_empty_schedule_is_one() -> None:
    s = ScheduleBuilder("nothing", 1, [0, 0, 0]).build()
    s.validate()
    assert len(s) == 0
    assert s.bytes_sent(4).tolist() == [0]
    assert s.level().tolist() == []
    assert len(s.steps_of(0)) == 0


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_bytes_and_steps_equal_the_formula(ranks: int) -> None:
    s = mesh_all_to_all(ranks, 5)
    s.validate()
    assert s.bytes_sent(4).tolist() == [(ranks - 1) * 20] * ranks
    assert [len(s.steps_of(r)) for r in range(ranks)] == [int(ranks > 1)] * ranks


def test_levels_are_the_longest_chain() -> None:
    builder = ScheduleBuilder("chain", 2, [8, 8, 0])
    a = builder.add(0, 0, 1, 0, [0, 1], 1)
    b = builder.add(1, 0, 1, 0, 2, 1, after=a[:1])
    builder.add(2, 0, 1, 0, 3, 1, after=[int(a[1]), int(b[0])])
    assert builder.build().level().tolist() == [0, 0, 1, 2]


def test_589056_operations_build_well_under_a_second() -> None:
    start = time.perf_counter()
    s = mesh_all_to_all(768, 3)
    assert time.perf_counter() - start < 1.0
    assert len(s) == 589_056 + 768


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"src": 3}, "src of op 0 is 3; allowed: 0 to 2"),
        ({"kind": 9}, "kind of op 0 is 9"),
        ({"dst_buf": 3}, "dst_buf of op 0 is 3"),
        ({"count": 5}, r"input\[0:5\].*leaves its buffer"),
        ({"dst_off": 1}, "leaves its buffer"),
        ({"src_off": -1}, "leaves its buffer"),
        ({"count": -1}, "leaves its buffer"),
        ({"after": [0]}, "waits for op 0; only earlier"),
        ({"dst": 0, "dst_buf": INPUT, "count": 3, "dst_off": 1}, "overlaps itself"),
    ],
)
def test_a_malformed_operation_is_named(change: dict[str, Any], words: str) -> None:
    builder = ScheduleBuilder("bad", 3, [4, 4, 0])
    columns = {"step": 0, "src": 0, "dst": 1, "src_off": 0, "dst_off": 0, "count": 4}
    builder.add(**(columns | change))
    with pytest.raises(ScheduleError, match=words):
        builder.build()


def test_shapes_that_do_not_fit_are_refused() -> None:
    builder = ScheduleBuilder("bad", 3, [4, 4, 0])
    with pytest.raises(ScheduleError, match="do not broadcast"):
        builder.add(0, [0, 1], [1, 2, 0], 0, 0, 1)
    with pytest.raises(ScheduleError, match=r"after has shape \(3,\)"):
        builder.add(0, [0, 1], 2, 0, 0, 1, after=[-1, -1, -1])
    with pytest.raises(ScheduleError, match="whole numbers"):
        builder.add(0, 0, 1, 0.5, 0, 1)
    assert builder.add(0, [], [], 0, 0, 1).tolist() == []
    with pytest.raises(ScheduleError, match="need 2"):
        builder.add(0, 0, 1, 0, 0, 1, after=([0], []))
    with pytest.raises(ScheduleError, match="shape"):
        ScheduleBuilder("bad", 3, [[1, 2, 3]] * 2)


def two_writes(**second: Any) -> Schedule:
    """Build two operations into the same elements of rank 2, the second one as given."""
    builder = ScheduleBuilder("race", 3, [4, 4, 0])
    builder.add(0, 0, 2, 0, 0, 3)
    columns = {"step": 1, "src": 1, "dst": 2, "src_off": 0, "dst_off": 2, "count": 2}
    builder.add(**(columns | second))
    return builder.build()


def test_unordered_accesses_are_found() -> None:
    with pytest.raises(ScheduleError, match=r"op 1 .* and op 0 .* no fixed"):
        two_writes().validate()
    with pytest.raises(ScheduleError, match="no fixed order"):
        two_writes(src=2, src_buf=OUTPUT, dst=1, src_off=2, dst_off=0).validate()
    with pytest.raises(ScheduleError, match="no fixed order"):
        two_writes(step=0, kind=REDUCE).validate()
    two_writes(after=[0]).validate()
    two_writes(dst_off=3, count=1).validate()
    two_writes(count=0).validate()


def test_order_counts_through_joins() -> None:
    builder = ScheduleBuilder("through", 3, [4, 4, 0])
    a = builder.add(0, [0, 1], 2, 0, [0, 2], 2)
    join = builder.join(1, 2, after=a)
    builder.add(2, 0, 2, 0, 0, 4, after=join)
    builder.build().validate()


def test_reductions_of_one_step_are_one_pass() -> None:
    builder = ScheduleBuilder("sum", 4, [4, 4, 0])
    first = builder.add(0, 3, 3, 0, 0, 4)
    sums = builder.add(1, [0, 1, 2], 3, 0, 0, 4, kind=REDUCE, after=first)
    builder.build().validate()
    builder.add(1, 2, 3, 0, 0, 4, kind=REDUCE, after=sums)
    with pytest.raises(ScheduleError, match="one pass"):
        builder.build().validate()


def test_a_pass_that_waits_for_itself_by_way_of_others_is_found() -> None:
    builder = ScheduleBuilder("round", 3, [4, 4, 4])
    first = builder.add(0, 0, 2, 0, 0, 2, kind=REDUCE)
    sent = builder.add(1, 2, 1, 0, 0, 2, src_buf=OUTPUT, dst_buf=SCRATCH, after=first)
    builder.add(0, 1, 2, 0, 2, 2, src_buf=SCRATCH, kind=REDUCE, after=sent)
    with pytest.raises(ScheduleError, match=r"op 2 .* waits for op 0 of the same step"):
        builder.build().validate()


def test_reductions_of_two_steps_need_an_order() -> None:
    builder = ScheduleBuilder("sum", 3, [4, 4, 0])
    builder.add([0, 1], [0, 1], 2, 0, 0, 4, kind=REDUCE)
    with pytest.raises(ScheduleError, match="no fixed order"):
        builder.build().validate()


def test_an_order_that_was_not_checked_is_said() -> None:
    s = mesh_all_to_all(150, 1)
    with pytest.raises(ScheduleError, match="NOT checked"):
        s.validate()
    s.validate(ordering=False)
