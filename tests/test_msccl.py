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


def in_place(letter, chunks):
    """Return an all_reduce of two ranks in one buffer: each adds up one chunk and sends it back."""
    gpus = ""
    for gpu in range(2):
        mine, other = 1 - gpu, gpu
        kinds = [("s", other), ("rrc", mine), ("s", mine), ("r", other)]
        steps = "".join(
            f'<step s="{k}" type="{kind}" srcbuf="{letter}" srcoff="{at}" dstbuf="{letter}" '
            f'dstoff="{at}" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
            for k, (kind, at) in enumerate(kinds)
        )
        gpus += (
            f'<gpu id="{gpu}" {chunks} s_chunks="0"><tb id="0" send="{1 - gpu}" recv="{1 - gpu}" '
            f'chan="0">{steps}</tb></gpu>'
        )
    return f'<algo name="pair" ngpus="2" coll="allreduce" inplace="1">{gpus}</algo>'


@pytest.mark.parametrize("letter", ["i", "o"])
@pytest.mark.parametrize("chunks", ['i_chunks="2" o_chunks="2"', 'i_chunks="2" o_chunks="0"'])
def test_in_place_input_and_output_are_one_buffer(letter, chunks, tmp_path, capsys):
    path = tmp_path / "pair.xml"
    path.write_text(in_place(letter, chunks))
    command = f"bench allreduce --schedule {path} --sizes 64KiB --payload real --json"
    assert run_command(command.split()) in (0, None)
    assert json.loads(capsys.readouterr().out)["wrong"] == 0


def test_one_buffer_has_one_size(tmp_path):
    path = tmp_path / "pair.xml"
    path.write_text(in_place("i", 'i_chunks="2" o_chunks="4"'))
    with pytest.raises(ScheduleError, match="gpu 0: i_chunks is 2 and o_chunks 4; with inplace=1"):
        read_msccl(path)


def swapping(blocks):
    """Return a shift of two ranks in one buffer: each overwrites what it has just sent."""
    gpus = ""
    for gpu in range(2):
        other, tbs = 1 - gpu, ""
        for number, kinds in enumerate(blocks):
            send, recv = (other if kind in kinds else -1 for kind in "sr")
            steps = "".join(
                f'<step s="{k}" type="{kind}" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" '
                f'depid="{-1 if k or not number else 0}" deps="0" hasdep="0"/>'
                for k, kind in enumerate(kinds)
            )
            tbs += f'<tb id="{number}" send="{send}" recv="{recv}" chan="0">{steps}</tb>'
        gpus += f'<gpu id="{gpu}" i_chunks="1" o_chunks="1" s_chunks="0">{tbs}</gpu>'
    return f'<algo name="swap" ngpus="2" coll="send_recv" inplace="1">{gpus}</algo>'


@pytest.mark.parametrize("blocks", [[("s", "r")], [("cpy", "s", "r")], [("s",), ("r",)]])
def test_what_was_sent_may_be_overwritten(blocks, tmp_path, capsys):
    path = tmp_path / "swap.xml"
    path.write_text(swapping(blocks))
    found = []
    for way in (f"--schedule {path}", "--ranks 2"):
        command = f"bench send_recv {way} --sizes 4KiB:1MiB:16 --payload real --json"
        assert run_command(command.split()) in (0, None)
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["wrong"] for row in rows] == [0] * 3
        found.append([row["time_us"] for row in rows])
    assert found[0] == found[1]


def test_what_is_being_sent_must_not_be_overwritten(tmp_path):
    path = tmp_path / "swap.xml"
    path.write_text(swapping([("s",), ("r",)]).replace('depid="0"', 'depid="-1"'))
    with pytest.raises(
        ScheduleError,
        match=r"gpu \d tb 1 step 0 \(r\) and gpu \d tb 0 step 0 \(s\) use chunk 0 of buffer i in "
        r"no fixed order; let one wait for the other \(depid and deps\), or put both into one tb",
    ):
        read_msccl(path)


def written_by_tools(name, gpus, scratch, blocks_of):
    """Return an all_reduce in place of n chunks a gpu, as MSCCL's own tools write such files.

    ``blocks_of(gpu)`` gives thread blocks: (send, recv, [(kind, src, dst, chunks, wait), ...]),
    where a source or destination is such as "i3" and a wait is block and step, or None.
    """
    text = f'<algo name="{name}" ngpus="{gpus}" coll="allreduce" inplace="1" outofplace="0">'
    for gpu in range(gpus):
        text += f'<gpu id="{gpu}" i_chunks="{gpus}" o_chunks="0" s_chunks="{scratch}">'
        for number, (send, recv, steps) in enumerate(blocks_of(gpu)):
            text += f'<tb id="{number}" send="{send}" recv="{recv}" chan="0">'
            for k, (kind, src, dst, count, wait) in enumerate(steps):
                block, step = wait or (-1, -1)
                text += (
                    f'<step s="{k}" type="{kind}" srcbuf="{src[0]}" srcoff="{src[1:]}" '
                    f'dstbuf="{dst[0]}" dstoff="{dst[1:]}" cnt="{count}" depid="{block}" '
                    f'deps="{step}" hasdep="0"/>'
                )
            text += "</tb>"
        text += "</gpu>"
    return text + "</algo>"


def ring_in_one_block(n):
    """The ring of MSCCL's tools: one thread block overwrites in the end what it sent first."""

    def blocks(gpu):
        kinds = ["s", *["rrs"] * (n - 2), "rrcs", *["rcs"] * (n - 2), "r"]
        chunks = [f"i{(gpu - k) % n}" for k in range(2 * n - 1)]
        steps = [(kind, at, at, 1, None) for kind, at in zip(kinds, chunks, strict=True)]
        return [((gpu + 1) % n, (gpu - 1) % n, steps)]

    return written_by_tools("ring", n, 0, blocks)


def all_pairs(n):
    """All pairs, as MSCCL's tools write it: parts to all, sums in a block of its own, sums to all.

    The last receive of a pair overwrites what the first send has sent.
    """

    def blocks(gpu):
        peers = [peer for peer in range(n) if peer != gpu]
        adds = [("re", f"s{k}", f"i{gpu}", 1, (k + 1, 1)) for k in range(n - 1)]
        found = [(-1, -1, adds)]
        for k, peer in enumerate(peers):
            steps = [
                ("s", f"i{peer}", "s0", 1, None),
                ("r", "i0", f"s{k}", 1, None),
                ("s", f"i{gpu}", f"i{gpu}", 1, (0, n - 2)),
                ("r", "i0", f"i{peer}", 1, None),
            ]
            found.append((peer, peer, steps))
        return found

    return written_by_tools("allpairs", n, n - 1, blocks)


@pytest.mark.parametrize("program", [ring_in_one_block, all_pairs])
@pytest.mark.parametrize("n", [2, 3, 8])
def test_programs_as_msccls_tools_write_them_are_taken(program, n, tmp_path, capsys):
    path = tmp_path / "algo.xml"
    path.write_text(program(n))
    scratch = read_msccl(path).sizes[:, 2].tolist()
    plain = n - 1 if program is all_pairs else n - 2  # one chunk for each sum that stays nowhere
    assert scratch == [plain] * n  # nothing waits at its receiver
    command = f"bench allreduce --schedule {path} --sizes 64KiB,1MiB --payload real --json"
    assert run_command(command.split()) in (0, None)
    for line in capsys.readouterr().out.splitlines():
        assert json.loads(line)["wrong"] == 0
