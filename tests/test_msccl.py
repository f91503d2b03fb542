"""MSCCL XML: written, read back, run and timed as before; wrong steps are refused by place."""

import json
import re
from xml.etree.ElementTree import parse

import numpy as np
import pytest

from ubnet.cli.main import run_command
from ubnet.collectives import OPERATIONS, build
from ubnet.errors import ScheduleError
from ubnet.fabrics import load_fabric
from ubnet.msccl import write_msccl
from ubnet.msccl_reader import read_msccl
from ubnet.replay import Arena, replay
from ubnet.timing import time_schedule

CASES = [
    (op.name, algorithm)
    for op in OPERATIONS.values()
    for algorithm in op.algorithms
    if op.name != "barrier" and not op.uneven
]


def outputs(schedule):
    arena = Arena(schedule.sizes, "int64")
    for rank in range(schedule.ranks):
        size = len(arena.input(rank))
        arena.input(rank)[:] = np.random.default_rng(rank).integers(1, 99, size)
    replay(schedule, arena)
    return [arena.output(rank).tolist() for rank in range(schedule.ranks)]


@pytest.mark.parametrize("ranks", [1, 3, 4])
@pytest.mark.parametrize(("op", "algorithm"), CASES)
def test_there_and_back_does_the_same(op, algorithm, ranks, tmp_path):
    schedule = build(op, ranks, 12, algorithm=algorithm)
    write_msccl(schedule, tmp_path / "algo.xml")
    unit = int(parse(tmp_path / "algo.xml").getroot().get("nchunksperloop") or 1)
    elements = max(int(schedule.sizes[:, :2].max()) // max(unit, 1), 1)
    again = read_msccl(tmp_path / "algo.xml", elements)
    assert again.name == schedule.name
    assert outputs(again) == outputs(schedule)
    assert again.bytes_sent(4).tolist() == schedule.bytes_sent(4).tolist()


@pytest.mark.parametrize("algorithm", ["mesh", "nhr"])
def test_an_imported_schedule_takes_the_same_time(algorithm, tmp_path):
    fabric = load_fabric("cloudmatrix384")
    schedule = build("all_reduce", 8, 8, algorithm=algorithm)
    write_msccl(schedule, tmp_path / "algo.xml")
    times = [
        time_schedule(s, fabric, np.arange(8), 4096, "aiv").time_ps
        for s in (schedule, read_msccl(tmp_path / "algo.xml"))
    ]
    assert times[1] == pytest.approx(times[0], rel=0.01)


def corrupted(tmp_path, change):
    """Return a path to a ring of 4 whose third step on gpu 2 was changed."""
    path = tmp_path / "ring.xml"
    write_msccl(build("all_reduce", 4, 4, algorithm="ring"), path)
    tree = parse(path)
    block = next(tb for tb in tree.getroot()[2] if sum(s.get("type") != "nop" for s in tb) > 3)
    step = [s for s in block if s.get("type") != "nop"][2]
    change(step, block)
    tree.write(path)
    return path, rf"gpu 2 tb {block.get('id')} step {step.get('s')}"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda step, tb: step.set("type", "rx"), "type 'rx'; allowed: s, r, rcs"),
        (lambda step, tb: step.set("cnt", "2"), "(chunks where|which has 4|sends 2)"),
        (lambda step, tb: step.set("srcoff", "9"), "chunks 9 to 9 of srcbuf o, which has 4"),
        (lambda step, tb: step.set("srcbuf", "x"), "srcbuf is 'x'"),
        (lambda step, tb: step.set("s", "77"), "stands at place"),
        (lambda step, tb: step.set("cnt", "many"), "cnt='many'"),
        (lambda step, tb: step.set("depid", "9"), "waits for tb 9"),
    ],
)
def test_a_corrupted_step_is_refused_with_its_place(change, what, tmp_path):
    path, place = corrupted(tmp_path, change)
    with pytest.raises(ScheduleError, match=what) as refused:
        read_msccl(path)
    assert re.search(r"gpu \d tb \d+ step", str(refused.value))
    if "cnt" not in what and "77" not in place and "stands" not in what:
        assert re.search(place, str(refused.value))


def test_two_blocks_of_one_id_are_refused(tmp_path):
    path, _ = corrupted(tmp_path, lambda step, tb: None)
    tree = parse(path)
    blocks = tree.getroot()[2].findall("tb")
    blocks[1].set("id", blocks[0].get("id"))
    tree.write(path)
    what = r"gpu 2 has two <tb> of id 0; give each an id of its own"
    with pytest.raises(ScheduleError, match=what):
        read_msccl(path)


def test_a_step_that_is_gone_is_noticed(tmp_path):
    path, _ = corrupted(tmp_path, lambda step, tb: tb.remove(list(tb)[-1]))
    with pytest.raises(ScheduleError, match=r"gpu \d tb \d+ step \d+ \(\w+\) (sends|waits), but"):
        read_msccl(path)


def test_a_dependency_that_is_gone_is_a_race(tmp_path):
    path = tmp_path / "mesh.xml"
    write_msccl(build("all_reduce", 4, 4, algorithm="mesh"), path)
    tree = parse(path)
    for step in tree.getroot()[1].iter("step"):
        if step.get("type") == "rrc":
            step.set("depid", "-1")
            break
    tree.write(path)
    with pytest.raises(ScheduleError, match=r"gpu 1 tb \d+ step .* in no fixed order"):
        read_msccl(path)


def test_messages_without_data_have_no_form(tmp_path):
    with pytest.raises(ScheduleError, match="sends no data"):
        write_msccl(build("barrier", 4), tmp_path / "no.xml")


def test_an_imported_schedule_is_benched_like_our_own(tmp_path, capsys):
    write_msccl(build("all_reduce", 8, 16, algorithm="nhr"), tmp_path / "nhr.xml")
    common = ["--sizes", "64KiB", "--json"]
    rows = []
    for way in (["--schedule", str(tmp_path / "nhr.xml")], ["--algo", "nhr", "--ranks", "8"]):
        assert run_command(["bench", "allreduce", *way, *common]) == 0
        rows.append(json.loads(capsys.readouterr().out))
    assert rows[0] == rows[1]
    assert rows[0]["wrong"] == 0
    file = str(tmp_path / "nhr.xml")
    assert run_command(["bench", "allgather", "--schedule", file, *common]) == 2
    assert "holds a schedule of all_reduce" in capsys.readouterr().err
    assert run_command(["bench", "allreduce", "--schedule", file, "--ranks", "9", *common]) == 2
    assert "is for 8 ranks, not 9" in capsys.readouterr().err


@pytest.mark.parametrize("scratch", [0, 3])
def test_a_schedule_without_chunks_is_not_benched(scratch, tmp_path, capsys):
    gpus = "".join(
        f'<gpu id="{gpu}" i_chunks="0" o_chunks="0" s_chunks="{scratch}"><tb id="0" send="-1" '
        'recv="-1" chan="0"><step s="0" type="nop" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" '
        'cnt="0" depid="-1" deps="-1" hasdep="0"/></tb></gpu>'
        for gpu in range(2)
    )
    path = tmp_path / "none.xml"
    path.write_text(f'<algo name="none" ngpus="2" coll="allreduce">{gpus}</algo>')
    assert not read_msccl(path).sizes[:, :2].any()
    assert run_command(["bench", "allreduce", "--schedule", str(path), "--sizes", "64KiB"]) == 2
    assert "schedule has no chunks to move: let a gpu have i_chunks" in capsys.readouterr().err


CHANGES = {
    "srcoff": lambda step: step.set("srcoff", str(int(step.get("srcoff")) + 1)),
    "dstoff": lambda step: step.set("dstoff", str(int(step.get("dstoff")) - 1)),
    "type": lambda step: step.set("type", {"r": "rrc", "rrc": "r"}.get(step.get("type"), "nop")),
    "srcbuf": lambda step: step.set("srcbuf", "i" if step.get("srcbuf") == "o" else "o"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("op", "algorithm"),
    [
        ("all_reduce", "ring"),
        ("all_gather", "nb"),
        ("reduce_scatter", "ring"),
        ("all_to_all", "pairwise"),
        ("broadcast", "binomial"),
        ("reduce", "binomial"),
        ("scan", "doubling"),
    ],
)
def test_whatever_step_is_changed_the_result_is_right_or_the_file_is_refused(
    op, algorithm, change, tmp_path
):
    path = tmp_path / "algo.xml"
    write_msccl(build(op, 4, 4, algorithm=algorithm), path)
    right, named, refused = outputs(read_msccl(path)), 0, 0
    for number in range(len(list(parse(path).getroot().iter("step")))):
        tree = parse(path)
        step = list(tree.getroot().iter("step"))[number]
        if step.get("type") == "nop" or (change == "type" and step.get("type") == "s"):
            continue
        own = next(
            f"gpu {gpu.get('id')} tb {tb.get('id')} step {step.get('s')} "
            for gpu in tree.getroot()
            for tb in gpu
            if step in list(tb)
        )
        CHANGES[change](step)
        tree.write(tmp_path / "changed.xml")
        try:
            result, why = outputs(read_msccl(tmp_path / "changed.xml")), ""
        except ScheduleError as error:
            result, why = right, str(error)
            refused, named = refused + 1, named + (own in why)
        assert result == right
        assert not why or re.search(r"(gpu \d tb \d+ step \d+|no step writes) ", why)
    assert refused
    # Where a copy is left out, only what lacks it can be named.
    assert named >= refused * (0.6 if change != "type" else 0)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            lambda step: step.set("type", "r"),
            r"\(r\) from gpu 1 tb \d step \d \(s\) puts rank 1's chunk 1 over rank 2's chunk 1 in "
            r"rank 2 output chunk 1, which is lost",
        ),
        (
            lambda step: step.set("dstoff", "2"),
            r"\(rrc\) from gpu 1 tb \d step \d \(s\) adds rank 1's chunk 1 into rank 2 output "
            r"chunk 2, where the sum of chunk 2 of ranks 0 to 3 belongs",
        ),
    ],
)
def test_a_chunk_in_the_wrong_place_is_refused_in_words(change, what, tmp_path):
    path = tmp_path / "ring.xml"
    write_msccl(build("all_reduce", 4, 4, algorithm="ring"), path)
    tree = parse(path)
    change(next(step for step in tree.getroot()[2].iter("step") if step.get("type") == "rrc"))
    tree.write(path)
    with pytest.raises(ScheduleError, match=what):
        read_msccl(path)
