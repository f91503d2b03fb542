"""The bound in a picture: the fewest microseconds of any row of a size, and no line crosses it."""

import re
from dataclasses import replace

import pytest

from ubnet.report.plot import bound_of, plot_rows, series_of
from ubnet.report.row import Row


def row(algorithm, size, time_ps, efficiency):
    return Row.timed(
        time_ps,
        size,
        1.5,
        op="all_reduce",
        algorithm=algorithm,
        transport="aiv",
        plane="ub",
        ranks=4,
        wrong=0,
        efficiency=efficiency,
        busiest_link="",
        busiest_link_utilisation=0.0,
    )


ROWS = [
    row("ring", 1000, 5_000_000, 0.2),
    row("mesh", 1000, 2_000_000, 0.6),
    row("ring", 8000, 9_000_000, 0.9),
    row("mesh", 8000, 16_000_000, 0.5),
]


def test_the_bound_is_that_of_the_row_which_could_be_fastest():
    (bound,) = bound_of(ROWS)
    assert bound.across == [1000, 8000]
    assert bound.times == pytest.approx([1.0, 8.0])
    assert bound.rates == pytest.approx([1.5, 1.5])
    for line in series_of(ROWS):
        assert all(a >= b for a, b in zip(line.times, bound.times, strict=True))
        assert all(a <= b for a, b in zip(line.rates, bound.rates, strict=True))


def test_different_operations_have_no_common_bound():
    assert bound_of([*ROWS, replace(ROWS[0], op="all_gather")]) == []
    assert bound_of([replace(ROWS[0], size_bytes=0)]) == []


def test_where_readers_of_a_block_are_what_changes_there_is_no_bound_against_size():
    readers = [
        replace(ROWS[0], op="pool", case=f"1 MiB, {n} readers", ranks=n, size_bytes=n << 20)
        for n in (1, 2, 4)
    ]
    (line,) = series_of(readers)
    assert line.across == [1, 2, 4]
    assert bound_of(readers) == []


def test_the_picture_names_the_bound(tmp_path):
    pytest.importorskip("matplotlib")
    plot_rows(ROWS, tmp_path / "p.svg", "four dies")
    assert (tmp_path / "p.svg").read_text().count("<!-- bound -->") == 2


def test_of_several_ranks_each_has_a_line_of_its_own_or_is_a_place_on_one():
    both = [*ROWS, *(replace(row, ranks=8) for row in ROWS)]
    assert [line.label for line in series_of(both)] == [
        f"{ranks} ranks, {algorithm}" for ranks in (4, 8) for algorithm in ("ring", "mesh")
    ]
    assert bound_of(both) == []
    one_size_each = [row for row in both if row.size_bytes == (1000 if row.ranks == 4 else 8000)]
    assert [(line.label, line.across) for line in series_of(one_size_each)] == [
        ("ring", [4, 8]),
        ("mesh", [4, 8]),
    ]


@pytest.mark.parametrize("lines", [19, 60])
def test_every_label_stands_in_the_picture(tmp_path, lines):
    pytest.importorskip("matplotlib")
    rows = [replace(ROWS[k % 2], op=f"op{k}", size_bytes=s) for k in range(lines) for s in (8, 64)]
    plot_rows(rows, tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    height = float(re.search(r'viewBox="0 0 \S+ (\S+)"', text)[1])
    label = r'<!-- op\d.*? -->\s*<g [^>]*transform="translate\(\S+ (\S+)\)'
    found = sorted(float(y) for y in re.findall(label, text))
    assert len(found) >= 2 * lines
    assert 0 < found[0] < found[-1] < height


@pytest.mark.parametrize(("ranks", "sizes"), [((4, 8), (8000,)), ((4,), (1000, 8000))])
def test_the_title_says_what_all_rows_share_their_size_among_it(tmp_path, ranks, sizes):
    pytest.importorskip("matplotlib")
    rows = [replace(ROWS[0], ranks=n, size_bytes=s) for n in ranks for s in sizes]
    plot_rows(rows, tmp_path / "p.svg", "four dies")
    title = re.search(r"<!-- (all_reduce, .*?) -->", (tmp_path / "p.svg").read_text())[1]
    assert ("8000" in title) == (sizes == (8000,))
    assert ("4 ranks" in title) == (ranks == (4,))
