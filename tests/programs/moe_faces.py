"""A program in DeepEP's words and Ascend's: every rank prints a checksum of what it got."""

import zlib

import ml_dtypes
import numpy as np
from mpi4py import MPI

from ubnet.moe import Buffer, npu_moe_distribute_combine, npu_moe_distribute_dispatch

comm = MPI.COMM_WORLD
rank, ranks, experts, topk, tokens, hidden = comm.rank, comm.size, 2 * comm.size, 3, 5, 256
rng = np.random.default_rng(rank)
x = rng.standard_normal((tokens, hidden)).astype(ml_dtypes.bfloat16)
index = np.stack([rng.permutation(experts)[:topk] for _ in range(tokens)])
weights = rng.random((tokens, topk)).astype(np.float32)
sums = []

buffer = Buffer(comm=comm)
(rows, scales), count, handle, event, hook = buffer.low_latency_dispatch(
    x, index, tokens, experts, return_recv_hook=True
)
hook()
y = (rows.astype(np.float32) * np.repeat(scales, 128, axis=2)).astype(ml_dtypes.bfloat16)
out, event, hook = buffer.low_latency_combine(y, index, weights, handle, async_finish=True)
event.current_stream_wait()
sums += [zlib.crc32(a.tobytes()) for a in (rows, scales, count, out)]

per_rank, per_node, per_expert, inside, event = buffer.get_dispatch_layout(index, experts)
recv_x, recv_index, recv_weights, counts, handle, event = buffer.dispatch(
    x,
    num_tokens_per_rank=per_rank,
    is_token_in_rank=inside,
    num_tokens_per_expert=per_expert,
    topk_idx=index,
    topk_weights=weights,
)
out, summed, event = buffer.combine(recv_x, handle, recv_weights)
sums += [zlib.crc32(a.tobytes()) for a in (recv_x, recv_index, recv_weights, out, summed)]

got = npu_moe_distribute_dispatch(x, index, comm, ranks, rank, experts, quant_mode=2)
y = (got[0].astype(np.float32) * got[1][:, None]).astype(ml_dtypes.bfloat16)
out = npu_moe_distribute_combine(y, index, got[2], got[4], weights, comm, ranks, rank, experts)
sums += [zlib.crc32(a.tobytes()) for a in (*got[:2], *got[3:5], out)]
lines = comm.gather((rank, sums, round(MPI.Wtime() * 1e12)))
if rank == 0:
    for line in lines:
        print(*line)
