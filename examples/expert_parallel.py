"""A program in DeepEP's words: tokens to their experts and back, with computing under the way.

Run it with `ubnet run -n 16 examples/expert_parallel.py`, or on several processes with
`mpirun -n 2 ubnet run -n 16 examples/expert_parallel.py`. It prints:

    16 ranks, 64 MiB of buffers each
    rows on a rank: 478 to 540
    dispatch 65.08 us, 30 us of computing under it
    combine  30.47 us
    every token came back doubled: True
"""

import ml_dtypes
import numpy as np
from mpi4py import MPI

import ubnet
from ubnet.moe import Buffer

TOKENS, TOPK, HIDDEN, EXPERTS = 64, 8, 1024, 256
MAX_TOKENS = TOKENS


def main() -> None:
    """Dispatch, let the experts double every token, combine."""
    comm = MPI.COMM_WORLD
    rng = np.random.default_rng(comm.rank)
    x = rng.integers(-8, 9, (TOKENS, HIDDEN)).astype(ml_dtypes.bfloat16)
    topk_idx = np.stack([rng.permutation(EXPERTS)[:TOPK] for _ in range(TOKENS)])
    topk_weights = np.full((TOKENS, TOPK), 1 / TOPK, np.float32)
    hint = Buffer.get_low_latency_rdma_size_hint(MAX_TOKENS, HIDDEN, comm.size, EXPERTS)
    buffer = Buffer(comm=comm, num_rdma_bytes=hint, low_latency_mode=True)

    begin = MPI.Wtime()
    recv_x, recv_count, handle, _, hook = buffer.low_latency_dispatch(
        x, topk_idx, MAX_TOKENS, EXPERTS, use_fp8=False, return_recv_hook=True
    )
    ubnet.compute(30e-6)  # the shared expert, say, while tokens are on their way
    hook()
    dispatched = MPI.Wtime()
    combined_x, event, _ = buffer.low_latency_combine(
        recv_x * ml_dtypes.bfloat16(2), topk_idx, topk_weights, handle, async_finish=True
    )
    event.current_stream_wait()
    combined = MPI.Wtime()

    right = bool((combined_x == 2 * x).all())
    rows = comm.gather((int(recv_count.sum()), right))
    if comm.rank == 0:
        print(f"{comm.size} ranks, {hint >> 20} MiB of buffers each")
        print(f"rows on a rank: {min(n for n, _ in rows)} to {max(n for n, _ in rows)}")
        print(f"dispatch {1e6 * (dispatched - begin):.2f} us, 30 us of computing under it")
        print(f"combine  {1e6 * (combined - dispatched):.2f} us")
        print(f"every token came back doubled: {all(ok for _, ok in rows)}")


if __name__ == "__main__":
    main()
