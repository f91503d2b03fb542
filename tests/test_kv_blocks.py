"""Block lists and paged caches: checks, merging, and bytes that arrive where the list says."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ubnet.errors import CapacityExceeded, OptionError
from ubnet.kv.blocks import BlockList, as_bytes
from ubnet.kv.cache import PagedCache, prompt_blocks
from ubnet.kv.checksum import checksum, count_unequal
from ubnet.kv.copying import copy_blocks
from ubnet.kv.delivery import Delivery, Parcel, deliver
from ubnet.kv.model import DEEPSEEK_R1, LLAMA_3_1_70B, KVModel

SMALL = KVModel("small", layers=3, heads=2, parts=(3, 2), itemsize=1)


@st.composite
def block_lists(draw):
    """Rows whose destinations do not overlap, in any order, some of them neighbours or empty."""
    lengths = draw(st.lists(st.integers(0, 9), max_size=12))
    gaps = draw(st.lists(st.integers(0, 2), min_size=len(lengths), max_size=len(lengths)))
    sources = draw(st.lists(st.integers(0, 60), min_size=len(lengths), max_size=len(lengths)))
    rows, to, behind = [], 0, 0
    for length, gap, source in zip(lengths, gaps, sources, strict=True):
        to += gap
        begin = behind if gap == 0 else source
        rows.append((begin, to, length))
        to, behind = to + length, begin + length
    return draw(st.permutations(rows))


def copied(rows, source, target):
    """Return the target after a copy of the rows, one byte at a time."""
    result = target.copy()
    for begin, to, length in rows:
        for k in range(length):
            result[to + k] = source[begin + k]
    return result


@given(rows=block_lists())
def test_a_copy_moves_the_listed_bytes_and_no_others(rows):
    blocks = BlockList(rows)
    source = np.random.default_rng(1).integers(0, 256, blocks.source_end + 3, dtype=np.uint8)
    before = np.full(blocks.target_end + 3, 77, dtype=np.uint8)
    expected = copied(rows, source, before)
    for listed in (blocks, blocks.merged()):
        for copy in (copy_blocks, getattr(copy_blocks, "py_func", copy_blocks)):
            target = before.copy()
            copy(listed.rows, source, target)
            assert target.tolist() == expected.tolist()


@given(rows=block_lists())
def test_merging_keeps_the_bytes_and_leaves_no_neighbours(rows):
    blocks, merged = BlockList(rows), BlockList(rows).merged()
    assert merged.nbytes == blocks.nbytes
    assert (merged.rows[:, 2] > 0).all()
    begin, to, length = merged.rows.T
    apart = (begin[1:] != begin[:-1] + length[:-1]) | (to[1:] != to[:-1] + length[:-1])
    assert apart.all()
    assert (np.diff(to) > 0).all()


def test_neighbours_on_one_side_alone_stay_apart():
    assert BlockList([(0, 0, 4), (4, 8, 4)]).merged().rows.tolist() == [[0, 0, 4], [4, 8, 4]]
    assert BlockList([(0, 0, 4), (8, 4, 4)]).merged().rows.tolist() == [[0, 0, 4], [8, 4, 4]]
    assert BlockList([(4, 4, 4), (0, 0, 4)]).merged().rows.tolist() == [[0, 0, 8]]


@given(rows=block_lists().filter(lambda rows: any(r[2] for r in rows)), data=st.data())
def test_a_byte_written_twice_is_refused(rows, data):
    _, to, length = data.draw(st.sampled_from([r for r in rows if r[2]]))
    at = data.draw(st.integers(to, to + length - 1))
    with pytest.raises(OptionError, match="write the same bytes of the target"):
        BlockList([*rows, (0, at, 1)])


def test_an_overlap_names_both_blocks():
    said = r"blocks 0 \(source 0, destination 8, length 4\) and 2 \(source 0, destination 11, len"
    with pytest.raises(OptionError, match=said):
        BlockList([(0, 8, 4), (0, 0, 4), (0, 11, 4)])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(0, 0, -1)], r"block 0 is .*length -1\); offsets and lengths are 0 or more"),
        ([(0, 0, 1), (-8, 1, 1)], "block 1 is"),
        (np.array([[2**63, 0, 1]], dtype=np.uint64), "below 2"),
        ([(2**62, 0, 2**62)], "below 2"),
        ([(0, 0)], r"shape \(blocks, 3\).*of shape \(1, 2\)"),
        ([(0.5, 0, 1)], "whole numbers"),
    ],
)
def test_what_is_no_block_list_is_refused(rows, said):
    with pytest.raises(OptionError, match=said):
        BlockList(rows)


@pytest.mark.parametrize("rows", [[], np.zeros((0, 3)), [(5, 0, 0), (5, 0, 0)]])
def test_nothing_to_move_is_allowed(rows):
    blocks = BlockList(rows)
    blocks.check(5, 0)
    assert (blocks.nbytes, len(blocks.merged())) == (0, 0)
    assert checksum(blocks.sources(np.zeros(5, dtype=np.uint8))) == 0


def test_descriptors_of_other_libraries_are_taken_as_they_are():
    blocks = BlockList(np.array([[0, 4096, 16]], dtype=np.uint64))
    assert blocks.rows.dtype == np.int64
    assert repr(blocks) == "BlockList([[0, 4096, 16]])"
    assert repr(BlockList([(0, 8 * i, 8) for i in range(9)])).endswith("[0, 24, 8], ... 9 blocks])")


def test_a_block_beyond_its_memory_is_refused_naming_what_it_needs():
    blocks = BlockList([(0, 0, 4), (6, 4, 4)])
    blocks.check(10, 8)
    with pytest.raises(CapacityExceeded, match=r"block 1 .* byte 10 of the source, which has 9"):
        blocks.check(9, 8)
    with pytest.raises(CapacityExceeded, match=r"of the target, which has 7 .* at least 8 bytes"):
        blocks.check(10, 7)


def test_a_delivery_in_parts_is_that_of_the_whole():
    source, target = np.arange(64, dtype=np.uint8), np.zeros(64, dtype=np.uint8)
    rows = [(40, 0, 8), (48, 8, 2), (3, 20, 5), (0, 30, 0), (10, 50, 4)]

    def carried(some, before=None):
        blocks = BlockList(some)
        return deliver([Parcel(blocks, blocks.merged(), source, target)], before)

    for cut in range(len(rows) + 1):
        assert carried(rows[cut:], carried(rows[:cut])) == carried(rows)
    assert carried(rows).checksum_ok
    # What was wrong before stays wrong, in the checksum, too.
    wrong = carried(rows, Delivery((7,), (8,), 2))
    assert (wrong.wrong, wrong.checksum_ok) == (2, False)


@given(block_lists())
def test_neighbours_in_the_list_are_joined_and_keep_their_order(rows):
    blocks, memory = BlockList(rows), np.arange(200, dtype=np.uint8)
    joined = blocks.joined()
    assert len(joined) <= len(blocks)
    assert checksum(joined.sources(memory)) == checksum(blocks.sources(memory))
    assert checksum(joined.targets(memory)) == checksum(blocks.targets(memory))


def test_memory_of_any_type_is_taken_where_it_is_contiguous():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    as_bytes(array)[0] = 9
    assert array[0, 0] == 9
    with pytest.raises(OptionError, match=r"contiguous memory.*ascontiguousarray"):
        as_bytes(array[:, ::2])


def test_a_checksum_is_that_of_the_joined_bytes_and_sees_one_wrong_byte():
    memory = np.arange(64, dtype=np.uint8)
    blocks = BlockList([(40, 0, 8), (3, 20, 5), (0, 30, 0)])
    joined = memory[40:48].tobytes() + memory[3:8].tobytes()
    assert checksum(blocks.sources(memory)) == zlib.crc32(joined)
    target = np.zeros(64, dtype=np.uint8)
    copy_blocks(blocks.rows, memory, target)
    assert checksum(blocks.targets(target)) == zlib.crc32(joined)
    assert count_unequal(blocks, memory, target) == 0
    target[[21, 22]] += 1
    target[63] += 1
    assert checksum(blocks.targets(target)) != zlib.crc32(joined)
    assert count_unequal(blocks, memory, target) == 2


@pytest.mark.parametrize("tokens", [0, 1, 3, 7, 8, 9])
def test_a_prompt_arrives_token_by_token_through_both_page_tables(tokens):
    rng = np.random.default_rng(tokens)
    here, there = PagedCache(SMALL, pages=4, page_tokens=4), PagedCache(SMALL, 7, 4)
    tables = rng.permutation(4)[:3], rng.permutation(7)[:3]
    source = rng.integers(0, 256, here.nbytes, dtype=np.uint8)
    target = np.zeros(there.nbytes, dtype=np.uint8)
    blocks = prompt_blocks(here, tables[0], there, tables[1], tokens)
    assert blocks.nbytes == SMALL.prompt_bytes(tokens)
    copy_blocks(blocks.rows, source, target)
    shape = (SMALL.layers, -1, 4, SMALL.bytes_per_layer)
    sent, got = source.reshape(shape), target.reshape(shape)
    for token in range(tokens):
        page, slot = divmod(token, 4)
        a, b = sent[:, tables[0][page], slot], got[:, tables[1][page], slot]
        assert a.tolist() == b.tolist()
    assert np.count_nonzero(target) <= blocks.nbytes


def test_pages_have_the_published_sizes_and_merge_where_they_lie_in_a_row():
    assert PagedCache(DEEPSEEK_R1, pages=1).page_bytes == 18_432
    assert PagedCache(LLAMA_3_1_70B, pages=1).page_bytes == 65_536
    cache = PagedCache(DEEPSEEK_R1, pages=300)
    blocks = prompt_blocks(cache, np.arange(256), cache, np.arange(44, 300), tokens=4096)
    assert len(blocks) == 256 * 61
    assert len(blocks.merged()) == 61


def test_a_prompt_that_does_not_fit_is_refused():
    cache = PagedCache(SMALL, pages=4, page_tokens=4)
    with pytest.raises(CapacityExceeded, match=r"9 tokens fill 3 pages of 4 .* has 2: give it 3"):
        prompt_blocks(cache, [0, 1], cache, [0, 1, 2], tokens=9)
    with pytest.raises(CapacityExceeded, match="names page 4, but the cache has pages 0 to 3"):
        prompt_blocks(cache, [0, 4], cache, [0, 1], tokens=8)
    with pytest.raises(OptionError, match="write the same bytes"):
        prompt_blocks(cache, [0, 1], cache, [2, 2], tokens=8)
    with pytest.raises(OptionError, match="same model in pages of the same size"):
        prompt_blocks(cache, [0], PagedCache(SMALL, 4, 8), [0], tokens=1)
    with pytest.raises(OptionError, match="0 tokens or more, not -1"):
        prompt_blocks(cache, [0], cache, [0], tokens=-1)
    with pytest.raises(OptionError, match="page_tokens=0"):
        PagedCache(SMALL, pages=1, page_tokens=0)
