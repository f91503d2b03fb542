"""MSCCL files that overwrite: in place, what was sent, as MSCCL's own tools write them."""

import json

import pytest

from ubnet.cli.main import run_command
from ubnet.errors import ScheduleError
from ubnet.msccl_reader import read_msccl


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
