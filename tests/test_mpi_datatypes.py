"""Derived datatypes: layouts against a list of every byte, messages against numpy's slices."""

import pickle
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ubnet
from ubnet import mpi as MPI

NAMED = ["BYTE", "SHORT", "INT", "DOUBLE", "DOUBLE_INT"]
SMALL = st.integers(0, 4)
PLACE = st.integers(-5, 12)


def bytes_of(datatype):
    """Where each byte of an element stands, with its extent: written down one by one."""
    base, combiner, a = datatype.decode()
    if combiner == "NAMED":
        pair = datatype == MPI.DOUBLE_INT
        return list(range(12 if pair else datatype.size)), datatype.extent
    if combiner == "STRUCT":
        rows = zip(a["datatypes"], a["displacements"], a["blocklengths"], strict=True)
        blocks = [(bytes_of(t), place, n) for t, place, n in rows]
    else:
        one = bytes_of(base)
        extent = one[1]
        if combiner in ("DUP", "CONTIGUOUS", "RESIZED"):
            blocks = [(one, 0, a.get("count", 1))]
        elif combiner in ("VECTOR", "HVECTOR"):
            step = a["stride"] * (extent if combiner == "VECTOR" else 1)
            blocks = [(one, i * step, a["blocklength"]) for i in range(a["count"])]
        else:
            unit = 1 if combiner.startswith("H") else extent
            places = [place * unit for place in a["displacements"]]
            lengths = a.get("blocklengths", [a.get("blocklength")] * len(places))
            blocks = [(one, place, n) for place, n in zip(places, lengths, strict=True)]
    where = [
        place + element * extent + byte
        for (inside, extent), place, n in blocks
        for element in range(n)
        for byte in inside
    ]
    return where, datatype.extent


def made(children):
    lists = st.lists(st.tuples(SMALL, PLACE), max_size=4)
    return st.one_of(
        st.builds(lambda t: t.Dup(), children),
        st.builds(lambda t, n: t.Create_contiguous(n), children, SMALL),
        st.builds(lambda t, *a: t.Create_vector(*a), children, SMALL, SMALL, PLACE),
        st.builds(lambda t, *a: t.Create_hvector(*a), children, SMALL, SMALL, PLACE),
        st.builds(lambda t, b: t.Create_indexed(*columns(b)), children, lists),
        st.builds(lambda t, b: t.Create_hindexed(*columns(b)), children, lists),
        st.builds(lambda t, n, b: t.Create_indexed_block(n, columns(b)[1]), children, SMALL, lists),
        st.builds(lambda t, lb, n: t.Create_resized(lb, n), children, PLACE, SMALL),
        st.builds(structure, st.lists(st.tuples(children, SMALL, PLACE), max_size=3)),
    )


def columns(rows):
    return [n for n, _ in rows], [place for _, place in rows]


def structure(rows):
    types, lengths, places = ([row[i] for row in rows] for i in range(3))
    return MPI.Datatype.Create_struct(lengths, places, types)


DATATYPES = st.recursive(
    st.sampled_from(NAMED).map(lambda name: getattr(MPI, name)), made, max_leaves=4
)


@settings(max_examples=150)
@given(DATATYPES)
def test_every_byte_stands_where_the_constructors_say(datatype):
    where, _ = bytes_of(datatype)
    layout = datatype._layout
    assert datatype.size == len(where)
    assert layout.places(1).tolist() == where
    assert layout.dense == (where == list(range(datatype.size)) and layout.index is None)
    if where:
        assert datatype.Get_true_extent() == (min(where), max(where) + 1 - min(where))
    again = pickle.loads(pickle.dumps(datatype))
    assert again.envelope == datatype.envelope
    assert again._layout.places(2).tolist() == layout.places(2).tolist()


@settings(max_examples=40)
@given(DATATYPES, st.integers(0, 3))
def test_packing_and_unpacking_moves_those_bytes_alone(datatype, count):
    low, high = datatype._layout.reach(max(count, 1))
    if low < 0 or datatype.extent < max(high, 1):
        return
    memory = np.arange(count * datatype.extent, dtype=np.uint8)
    packed = np.zeros(count * datatype.size + 3, dtype=np.uint8)
    assert datatype.Pack(memory, packed, 2, MPI.COMM_SELF) == 2 + count * datatype.size
    places = datatype._layout.places(count)
    assert packed[2 : 2 + count * datatype.size].tolist() == memory[places].tolist()
    back = np.full_like(memory, 255)
    datatype.Unpack(packed, 2, back, MPI.COMM_SELF)
    expected = np.full_like(memory, 255)
    expected[places] = memory[places]
    assert back.tolist() == expected.tolist()


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("shape", [(5,), (4, 3), (3, 4, 2)])
def test_a_subarray_is_a_slice(order, shape):
    starts, sides = [1] * len(shape), [side - 1 for side in shape]
    box = MPI.DOUBLE.Create_subarray(
        shape, sides, starts, MPI.ORDER_C if order == "C" else MPI.ORDER_F
    )
    array = np.arange(prod(shape), dtype="f8").reshape(shape, order=order)
    slices = tuple(slice(1, None) for _ in shape)

    def main(comm):
        if comm.rank == 0:
            comm.Send([array, 1, box], 1)
            return None
        got = np.zeros(shape, order=order)
        comm.Recv([got, 1, box], 0)
        return got

    got = ubnet.run(main, 2).values[1]
    expected = np.zeros(shape)
    expected[slices] = array[slices]
    assert (got == expected).all()
    assert box.extent == array.nbytes


@pytest.mark.parametrize("order", [MPI.ORDER_C, MPI.ORDER_F])
@pytest.mark.parametrize("how", [MPI.DISTRIBUTE_BLOCK, MPI.DISTRIBUTE_CYCLIC])
@pytest.mark.parametrize(
    ("sizes", "grid"), [((7,), (3,)), ((5, 4), (2, 3)), ((3, 1, 4), (1, 1, 2))]
)
def test_ranks_share_an_array_without_gap_or_overlap(order, how, sizes, grid):
    ranks = prod(grid)
    dealt = [MPI.DISTRIBUTE_DFLT_DARG] * len(sizes)
    parts = [
        MPI.INT.Create_darray(ranks, r, sizes, [how] * len(sizes), dealt, grid, order)
        for r in range(ranks)
    ]
    everything = np.concatenate([part._layout.places(1) for part in parts])
    assert sorted(everything.tolist()) == list(range(4 * prod(sizes)))
    assert {part.extent for part in parts} == {4 * prod(sizes)}


def test_a_cyclic_row_and_its_rank():
    part = MPI.BYTE.Create_darray(2, 1, [6], [MPI.DISTRIBUTE_CYCLIC], [2], [2])
    assert part._layout.places(1).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("DOUBLE", np.float64(1.5), "3ff8000000000000"),
        ("INT", np.int32(258), "00000102"),
        ("LONG_DOUBLE", np.longdouble(-1.5), "bfff8000" + "0" * 24),
        ("C_FLOAT_COMPLEX", np.complex64(1 + 2j), "3f80000040000000"),
    ],
)
def test_external32_is_big_endian(name, value, known):
    datatype = getattr(MPI, name)
    packed = bytearray(datatype.Pack_external_size("external32", 2))
    both = np.array([value, value])
    assert datatype.Pack_external("external32", both, packed, 0) == len(packed)
    assert packed.hex() == known * 2
    back = np.zeros_like(both)
    datatype.Unpack_external("external32", packed, 0, back)
    assert (back == both).all()
    with pytest.raises(MPI.Exception, match="external32"):
        datatype.Pack_external_size("native", 1)


def test_what_does_not_fit_is_refused():
    column = MPI.DOUBLE.Create_vector(3, 1, 4)
    for call in (
        lambda: MPI.DOUBLE.Pack(np.zeros(2), bytearray(15), 0, MPI.COMM_SELF),
        lambda: MPI.DOUBLE.Unpack(bytearray(15), 0, np.zeros(2), MPI.COMM_SELF),
    ):
        with pytest.raises(MPI.Exception) as caught:
            call()
        assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE

    def main(comm):
        with pytest.raises(ValueError, match="do not fit"):
            comm.Send([np.zeros(8), 1, column], 0)
        with pytest.raises(MPI.Exception, match="side of 3"):
            MPI.INT.Create_subarray([3], [3], [1])
        with pytest.raises(MPI.Exception, match="predefined"):
            MPI.INT.Free()

    ubnet.run(main, 1)


def test_addresses_from_the_bottom():
    def main(comm):
        sent, got = np.arange(4.0), np.zeros(4)
        where = [MPI.Get_address(sent[2:]), MPI.Get_address(sent)]
        both = MPI.DOUBLE.Create_hindexed([1, 1], where).Commit()
        comm.Sendrecv([MPI.BOTTOM, 1, both], 0, recvbuf=[got, 2, MPI.DOUBLE])
        assert got.tolist() == [2, 0, 0, 0]
        assert MPI.Aint_diff(*where) == 16

    ubnet.run(main, 1)


def test_elements_of_a_part_of_a_message():
    pairs = MPI.Datatype.Create_struct([1, 2], [0, 8], [MPI.INT, MPI.DOUBLE])
    status = MPI.Status()
    found = {}
    for nbytes in (0, 4, 8, 12, 20, 24, 44):
        status.count = nbytes
        found[nbytes] = status.Get_elements(pairs), status.Get_count(pairs)
    no = MPI.UNDEFINED
    assert found == {
        **{0: (0, 0), 4: (1, no), 8: (no, no), 12: (2, no), 20: (3, 1), 24: (4, no), 44: (7, no)}
    }


def test_names_and_codes():
    def main(comm):
        mine = MPI.INT.Create_contiguous(2)
        assert mine.Get_name() == ""
        mine.Set_name("two")
        return mine.name, MPI.INT.name, MPI.CHAR.tocode(), MPI.LONG_LONG.tocode()

    assert ubnet.run(main, 2).values == [("two", "MPI_INT", "S1", "q")] * 2
    with pytest.raises(ValueError, match="cannot map"):
        MPI.DOUBLE_INT.tocode()
