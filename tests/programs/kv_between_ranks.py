"""Random blocks between all ranks; prints a checksum a rank, the same however it is run."""

from zlib import crc32

import numpy as np

from ubnet.kv import BlockList
from ubnet.kv.between_ranks import write_to_ranks
from ubnet.rank import current

SIZE = 20_000


def lists_of(rank, ranks, seed):
    """Return what a rank writes to each rank: runs of any length in a slice of its own."""
    rng = np.random.default_rng([seed, rank])
    room = SIZE // ranks
    moves = []
    for peer in range(ranks):
        length = rng.integers(0, 30, int(rng.integers(0, 20)))
        end = np.cumsum(length + rng.integers(0, 5, len(length)))
        kept = end <= room
        rows = np.stack(
            [rng.integers(0, SIZE - 30, len(length)), rank * room + end - length, length]
        )
        moves.append((peer, BlockList(rows.T[kept])))
    return moves


def memory_of(rank, seed):
    """Return what a rank has to give."""
    return np.random.default_rng([seed, rank, 7]).integers(0, 256, SIZE, dtype=np.uint8)


def expected(rank, ranks, seed):
    """Return what must be in a rank's memory, by plain loops."""
    memory = np.zeros(SIZE, np.uint8)
    for sender in range(ranks):
        given = memory_of(sender, seed)
        for begin, to, length in dict(lists_of(sender, ranks, seed))[rank].rows.tolist():
            memory[to : to + length] = given[begin : begin + length]
    return memory


def main():
    """Write, compare, print."""
    me = current()
    ranks = me.host.size
    for seed in range(3):
        target = np.zeros(SIZE, np.uint8)
        write_to_ranks(lists_of(me.number, ranks, seed), memory_of(me.number, seed), target)
        good = (target == expected(me.number, ranks, seed)).all()
        print(f"rank {me.number} seed {seed} {crc32(target.data):08x} {good} {me.now_ps}")


if __name__ == "__main__":
    main()
