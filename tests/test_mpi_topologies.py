"""Topologies and neighbours: grids, graphs, who sends to whom, and the parts of the supernode."""

import numpy as np
import pytest

import ubnet
from ubnet import mpi as MPI
from ubnet.collectives import neighbor_all_to_all
from ubnet.collectives.registry import NEIGHBOURHOODS
from ubnet.errors import MismatchedCall
from ubnet.replay import Arena, replay


@pytest.mark.parametrize(
    ("ranks", "dims", "periods"),
    [(1, [1], True), (6, [2, 3], [True, False]), (7, [3, 2], False), (4, [2, 2], True)],
)
def test_a_grid_and_its_shifts(ranks, dims, periods, cloudmatrix):
    def main(comm):
        grid = comm.Create_cart(dims, periods)
        if grid == MPI.COMM_NULL:
            return None
        place = np.unravel_index(grid.rank, dims)
        assert grid.coords == list(place)
        assert grid.Get_cart_rank(grid.coords) == grid.rank
        for side in range(len(dims)):
            before, behind = grid.Shift(side, 1)
            token = np.array([-1])
            grid.Sendrecv(np.array([grid.rank]), behind, recvbuf=token, source=before)
            assert token[0] == (before if before != MPI.PROC_NULL else -1)
            line = grid.Sub([side == other for other in range(len(dims))])
            assert (line.size, line.rank, line.dims) == (dims[side], place[side], [dims[side]])
        return grid.inoutedges

    values = ubnet.run(main, ranks, cloudmatrix).values
    assert sum(value is not None for value in values) == np.prod(dims)


def reference(grid, sent):
    """What a member of a grid receives: from before what that sent behind, and the other way."""
    got = np.full_like(sent, -1)
    for side in range(grid.dim):
        before, behind = grid.Shift(side, 1)
        ends = [(before, 2 * side, behind, 2 * side + 1), (behind, 2 * side + 1, before, 2 * side)]
        for step, (to, mine, source, theirs) in enumerate(ends):
            into = got[theirs]
            grid.Sendrecv(sent[mine].copy(), to, step, into, source, step)
    return got


@pytest.mark.parametrize(
    ("ranks", "dims", "periods"),
    [
        (2, [2], True),
        (1, [1, 1], True),
        (6, [3, 2], [True, False]),
        (3, [3], False),
        (8, [2, 2, 2], True),
    ],
)
def test_neighbours_get_what_point_to_point_would_give(ranks, dims, periods, cloudmatrix):
    def main(comm):
        grid = comm.Create_cart(dims, periods)
        edges = 2 * len(dims)
        sent = 100 * grid.rank + np.arange(2 * edges).reshape(edges, 2)
        expected = reference(grid, sent)
        for call in (grid.Neighbor_alltoall, lambda *a: grid.Ineighbor_alltoall(*a).Wait()):
            got = np.full_like(sent, -1)
            call(sent, got)
            assert (got == expected).all()
        objects = grid.neighbor_alltoall([("from", grid.rank, edge) for edge in range(edges)])
        there = [peer != MPI.PROC_NULL for peer in grid.inedges]
        assert [bool(thing) for thing in objects] == there
        for thing, row in zip(objects, expected, strict=True):
            assert thing is None or (thing[1], 2 * thing[2]) == divmod(row[0], 100)
        everybody = grid.neighbor_allgather("x" * grid.rank)
        assert everybody == [None if p == MPI.PROC_NULL else "x" * p for p in grid.inedges]

    ubnet.run(main, ranks, cloudmatrix)


@pytest.mark.parametrize("ranks", [1, 3, 7])
def test_a_graph_of_ones_own_edges(ranks, cloudmatrix):
    def main(comm):
        rank, size = comm.rank, comm.size
        to = [(rank + 1) % size, rank, (rank + 1) % size]
        of = [(rank - 1) % size, rank, (rank - 1) % size]
        graph = comm.Create_dist_graph_adjacent(of, to, [1, 2, 3], [4, 5, 6])
        assert graph.Get_dist_neighbors() == (of, to, ([1, 2, 3], [4, 5, 6]))
        counts = [1, 2, 3]
        sent = np.array([10 * rank + edge for edge in range(3) for _ in range(edge + 1)])
        got = np.zeros(6, dtype=int)
        graph.Neighbor_alltoallv([sent, counts], [got, counts])
        assert got.tolist() == [10 * p + edge for edge, p in enumerate(of) for _ in range(edge + 1)]
        same = comm.Create_dist_graph([rank], [3], to)
        assert sorted(same.inedges) == sorted(of)
        assert same.outedges == to
        request = graph.Neighbor_allgather_init(np.array([rank]), block := np.zeros(3, dtype=int))
        for _ in range(2):
            block[:] = -1
            request.Start()
            request.Wait()
            assert block.tolist() == of

    ubnet.run(main, ranks, cloudmatrix)


def test_a_graph_that_all_know(cloudmatrix):
    def main(comm):
        star = comm.Create_graph([3, 4, 5, 6], [1, 2, 3, 0, 0, 0])
        got = np.full(star.nneighbors, -1)
        star.Neighbor_allgather(np.array([star.rank]), got)
        return got.tolist(), star.Dup().topology, star.Get_neighbors(1)

    values = ubnet.run(main, 4, cloudmatrix).values
    assert [value[0] for value in values] == [[1, 2, 3], [0], [0], [0]]
    assert [value[1:] for value in values] == [(MPI.GRAPH, [0])] * 4


def test_an_edge_that_has_one_end_is_named(cloudmatrix):
    def main(comm):
        graph = comm.Create_dist_graph_adjacent([], [1] if comm.rank == 0 else [])
        graph.Neighbor_alltoall(np.zeros(graph.outdegree), np.zeros(0))

    with pytest.raises(MismatchedCall, match="rank 0 has an edge to rank 1, which has none"):
        ubnet.run(main, 2, cloudmatrix)


def test_wrong_topologies_are_refused(cloudmatrix):
    def main(comm):
        for call, kind, text in [
            (lambda: comm.Create_cart([3]), MPI.Exception, "more than the 2 members"),
            (lambda: comm.Create_cart([2], [True, True]), ValueError, "expecting 1 items"),
            (lambda: comm.Create_graph([1], [4]), MPI.Exception, "none of the 1 members"),
            (lambda: comm.Create_dist_graph_adjacent([5], []), MPI.Exception, "rank 5"),
            (lambda: comm.Create_dist_graph_adjacent([0], [], [1, 2]), ValueError, "expecting 1"),
            (lambda: MPI.Cartcomm(comm), TypeError, "Cartcomm"),
        ]:
            with pytest.raises(kind, match=text):
                call()
        grid = comm.Create_cart([2])
        with pytest.raises(MPI.Exception, match="no ring"):
            grid.Get_cart_rank([2])
        with pytest.raises(MPI.Exception, match="rank 2 of a grid"):
            grid.Get_coords(2)

    ubnet.run(main, 2, cloudmatrix)


def test_parts_of_the_supernode(cloudmatrix):
    def main(comm):
        node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        npu = comm.Split_type(
            MPI.COMM_TYPE_HW_GUIDED, info=MPI.Info.Create({"mpi_hw_resource_type": "npu"})
        )
        finer = node.Split_type(MPI.COMM_TYPE_HW_UNGUIDED)
        assert comm.Split_type(MPI.UNDEFINED) == MPI.COMM_NULL
        assert finer.Split_type(MPI.COMM_TYPE_HW_UNGUIDED).size == 1
        return node.size, node.rank, npu.size, finer.size

    values = ubnet.run(main, 20, cloudmatrix).values
    assert values[:16] == [(16, r, 2, 2) for r in range(16)]
    assert values[16:] == [(4, r, 2, 2) for r in range(4)]


@pytest.mark.parametrize("name", NEIGHBOURHOODS)
@pytest.mark.parametrize("ranks", [1, 3, 7])
def test_schedules_are_sound_and_move_the_right_elements(name, ranks):
    rng = np.random.default_rng(ranks)
    edges = [(s, d) for s in range(ranks) for d in range(ranks) for _ in range(rng.integers(0, 3))]
    count = 3
    parts = []
    for rank in range(ranks):
        to, of = [d for s, d in edges if s == rank], [s for s, d in edges if d == rank]
        same = name == "neighbor_all_gather"
        starts = [0 if same else count * i for i in range(len(to))]
        back = [count * i for i in range(len(of))]
        parts.append(
            (
                (to, [0] * len(to), [count] * len(to), starts),
                (of, [0] * len(of), [count] * len(of), back),
            )
        )
    schedule = NEIGHBOURHOODS[name]["mesh"](parts)
    schedule.validate()
    arena = Arena(schedule.sizes, np.dtype("i8"))
    for rank in range(ranks):
        arena.input(rank)[:] = 1000 * rank + np.arange(len(arena.input(rank)))
    replay(schedule, arena)
    taken = {}
    for rank in range(ranks):
        for edge, source in enumerate(parts[rank][1][0]):
            nth = taken.setdefault((source, rank), 0)
            taken[source, rank] += 1
            slots = [i for i, d in enumerate(parts[source][0][0]) if d == rank]
            start = parts[source][0][3][slots[nth]]
            block = arena.output(rank)[count * edge : count * (edge + 1)]
            assert block.tolist() == [1000 * source + start + i for i in range(count)]


def test_counts_of_an_edge_must_be_equal():
    parts = [(([1], [0], [2], [0]), ([], [], [], [])), (([], [], [], []), ([0], [0], [3], [0]))]
    with pytest.raises(
        MismatchedCall, match="sends 2 elements to its neighbour 1, which expects 3"
    ):
        neighbor_all_to_all.mesh(parts)
