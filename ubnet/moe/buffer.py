"""DeepEP's `Buffer`: its names and returns, with numpy arrays in the place of tensors."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from ubnet.collectives.rank_packed import dispatch_layout
from ubnet.collectives.token_plan import check_experts
from ubnet.errors import CapacityExceeded, OptionError
from ubnet.moe import low_latency, normal
from ubnet.moe.calls import check_index
from ubnet.moe.event import EventOverlap
from ubnet.moe.low_latency import LowLatencyHandle, size_hint
from ubnet.moe.members import members_of
from ubnet.moe.normal import NormalHandle

Array = NDArray[Any]
Hook = Callable[[], None]

NODE_RANKS = 8
"""Ranks of what DeepEP calls an RDMA rank: the GPUs of a node."""


class Buffer:
    """The communication buffer of a rank; all ranks of the group make one.

    Parameters
    ----------
    group : communicator, optional
        The ranks that share experts; None: the whole world, or `comm`.
    num_nvl_bytes, num_rdma_bytes : int
        Bytes that are set aside. With `low_latency_mode` the low-latency calls are refused where
        they need more than `num_rdma_bytes`; memory is taken only for rows that hold tokens.
    low_latency_mode : bool
        Whether low-latency calls will come.
    comm : communicator, optional
        A communicator of mpi4py, instead of `group`.
    transport : str
        How bytes move, a name of the fabric's; ``auto``: as the fabric's fused operators write.

    Examples
    --------
    Two ranks with an expert each; token 0 goes to both and comes back with weights 1/4 + 3/4:

    >>> import ubnet, ml_dtypes, numpy as np
    >>> def main(comm):
    ...     x = np.full((1, 4), comm.rank + 1.0).astype(ml_dtypes.bfloat16)
    ...     index, weights = np.array([[0, 1]]), np.array([[0.25, 0.75]], np.float32)
    ...     buffer = Buffer(comm)
    ...     recv_x, count, handle, event, hook = buffer.low_latency_dispatch(x, index, 1, 2, False)
    ...     out, event, hook = buffer.low_latency_combine(recv_x, index, weights, handle)
    ...     return count.tolist(), out[0].tolist()
    >>> ubnet.run(main, ranks=2).values
    [([2], [1.0, 1.0, 1.0, 1.0]), ([2], [2.0, 2.0, 2.0, 2.0])]
    """

    def __init__(
        self,
        group: Any = None,
        num_nvl_bytes: int = 0,
        num_rdma_bytes: int = 0,
        low_latency_mode: bool = False,
        *,
        comm: Any = None,
        transport: str = "auto",
    ) -> None:
        self.members = members_of(group if comm is None else comm)
        self.rank, self.group_size = self.members.rank, self.members.size
        self.num_nvl_bytes, self.num_rdma_bytes = num_nvl_bytes, num_rdma_bytes
        self.low_latency_mode = low_latency_mode
        self.transport = transport

    def __repr__(self) -> str:
        return f"<Buffer: rank {self.rank} of {self.group_size}>"

    @staticmethod
    def get_low_latency_rdma_size_hint(
        num_max_dispatch_tokens_per_rank: int, hidden: int, num_ranks: int, num_experts: int
    ) -> int:
        """Return the bytes that low-latency calls set aside.

        >>> Buffer.get_low_latency_rdma_size_hint(96, 7168, 320, 320) >> 20
        840
        """
        check_experts(num_experts, num_ranks)
        return size_hint(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts)

    @staticmethod
    def capture() -> EventOverlap:
        """Return an event that stands for this moment."""
        return EventOverlap()

    def get_dispatch_layout(
        self,
        topk_idx: Array,
        num_experts: int,
        previous_event: EventOverlap | None = None,
        async_finish: bool = False,
        allocate_on_comm_stream: bool = False,
    ) -> tuple[Array, Array | None, Array, Array, EventOverlap]:
        """Count this rank's tokens by rank, node and expert.

        Returns
        -------
        num_tokens_per_rank : ndarray of int64, shape (ranks,)
        num_tokens_per_rdma_rank : ndarray of int64, shape (nodes,), or None on one node
        num_tokens_per_expert : ndarray of int64, shape (experts,)
        is_token_in_rank : ndarray of bool, shape (tokens, ranks)
        event : EventOverlap
        """
        _after(previous_event)
        check_experts(num_experts, self.group_size)
        table = check_index(topk_idx, len(topk_idx))
        layout = dispatch_layout(table, num_experts, self.group_size, NODE_RANKS, self.rank)
        by_node = layout.tokens_per_node if self.group_size > NODE_RANKS else None
        return (
            layout.tokens_per_rank,
            by_node,
            layout.tokens_per_expert,
            layout.is_token_in_rank,
            EventOverlap(),
        )

    def dispatch(
        self,
        x: Any,
        handle: NormalHandle | None = None,
        num_tokens_per_rank: Array | None = None,
        num_tokens_per_rdma_rank: Array | None = None,
        is_token_in_rank: Array | None = None,
        num_tokens_per_expert: Array | None = None,
        topk_idx: Array | None = None,
        topk_weights: Array | None = None,
        expert_alignment: int = 1,
        config: Any = None,
        previous_event: EventOverlap | None = None,
        async_finish: bool = False,
        allocate_on_comm_stream: bool = False,
    ) -> tuple[
        Any, Array | None, Array | None, list[int] | None, NormalHandle | None, EventOverlap
    ]:
        """Send each token once to every rank that has an expert of it.

        Parameters
        ----------
        x : ndarray of bfloat16, shape (tokens, hidden), or a pair
            Tokens; as a pair float8_e4m3fn and the float32 scales of 128 channels each.
        handle : NormalHandle, optional
            From an earlier dispatch: its layout is used again, without topk_idx.
        num_tokens_per_rank, is_token_in_rank, num_tokens_per_expert : ndarray
            From `get_dispatch_layout`; needed without a handle.
        topk_idx, topk_weights : ndarray, shape (tokens, topk), optional
            Experts and their weights; they ride along.
        expert_alignment : int
            Counts by expert are rounded up to multiples of it.
        async_finish : bool
            Return at once; arrays are filled when `event` has been waited for.

        Returns
        -------
        recv_x : as `x`
            Rows by source rank, then token.
        recv_topk_idx, recv_topk_weights : ndarray, shape (rows, topk), or None
            Local experts, -1 and weight 0 for those of other ranks.
        num_recv_tokens_per_expert_list : list of int, or None with a handle
        handle : NormalHandle, or None with a handle
        event : EventOverlap
        """
        _after(previous_event)
        tokens = normal.tokens_of(x)
        if handle is not None:
            normal.check_again(self.members, tokens, handle, topk_idx)
            again = normal.dispatch(self.members, tokens, handle, None, None, 0, self.transport)
            return again.x, None, None, None, None, _event(again.call, async_finish)
        if is_token_in_rank is None or num_tokens_per_rank is None or num_tokens_per_expert is None:
            raise OptionError(
                "dispatch without a handle needs num_tokens_per_rank, is_token_in_rank and "
                "num_tokens_per_expert: give what get_dispatch_layout returns"
            )
        experts = len(num_tokens_per_expert)
        order = normal.order_of(self.members, topk_idx, is_token_in_rank, experts, len(tokens.rows))
        made = NormalHandle(order, normal.expected(self.members, order))
        packed = normal.dispatch(
            self.members, tokens, made, topk_idx, topk_weights, experts, self.transport
        )
        counts = normal.expert_counts(self.members, num_tokens_per_expert)
        listed = normal.aligned_counts(counts, expert_alignment)
        event = _event(packed.call, async_finish)
        return packed.x, packed.topk_idx, packed.topk_weights, listed, made, event

    def combine(
        self,
        x: Array,
        handle: NormalHandle,
        topk_weights: Array | None = None,
        config: Any = None,
        previous_event: EventOverlap | None = None,
        async_finish: bool = False,
        allocate_on_comm_stream: bool = False,
    ) -> tuple[Array, Array | None, EventOverlap]:
        """Bring rows back and sum them token by token, without weights.

        Parameters
        ----------
        x : ndarray of bfloat16, shape (rows, hidden)
            One row for each row of recv_x.
        topk_weights : ndarray of float32, shape (rows, topk), optional
            Summed in the same way.

        Returns
        -------
        combined_x : ndarray of bfloat16, shape (tokens, hidden)
        combined_topk_weights : ndarray of float32, shape (tokens, topk), or None
        event : EventOverlap
        """
        _after(previous_event)
        out, summed, call = normal.combine(self.members, x, handle, topk_weights, self.transport)
        return out, summed, _event(call, async_finish)

    def low_latency_dispatch(
        self,
        x: Array,
        topk_idx: Array,
        num_max_dispatch_tokens_per_rank: int,
        num_experts: int,
        use_fp8: bool = True,
        async_finish: bool = False,
        return_recv_hook: bool = False,
    ) -> tuple[Any, Array, LowLatencyHandle, EventOverlap, Hook]:
        """Send each token to all of its experts, into arrays with as many rows for every expert.

        Returns
        -------
        recv_x : ndarray of bfloat16, shape (local experts, ranks * max tokens, hidden), or a pair
            With `use_fp8` float8_e4m3fn and float32 scales of 128 channels each.
        recv_count : ndarray of int32, shape (local experts,)
            Rows that hold tokens: the first ones of each expert, by source rank, then token.
        handle : LowLatencyHandle
        event : EventOverlap
        hook : callable
            With `return_recv_hook`: call it to receive; the arrays are filled then.

        Raises
        ------
        OptionError, CapacityExceeded
            Before anything is sent; no token is ever dropped.
        """
        most = num_max_dispatch_tokens_per_rank
        self._check_room(most, x.shape[-1], num_experts)
        quant = "fp8" if use_fp8 else "none"
        got = low_latency.dispatch(
            self.members, x, topk_idx, most, num_experts, quant, self.transport
        )
        call = got.handle.call
        event = _event(call, async_finish or return_recv_hook)
        rows = got.rows if got.scales is None else (got.rows, got.scales)
        return rows, got.count, got.handle, event, call.wait

    def low_latency_combine(
        self,
        x: Array,
        topk_idx: Array,
        topk_weights: Array,
        handle: LowLatencyHandle,
        zero_copy: bool = False,
        async_finish: bool = False,
        return_recv_hook: bool = False,
        out: Array | None = None,
    ) -> tuple[Array, EventOverlap, Hook]:
        """Bring the experts' results back and sum them with the gate's weights.

        Parameters
        ----------
        x : ndarray of bfloat16, shape (local experts, ranks * max tokens, hidden)
            Results, where the dispatch had put the tokens.

        Returns
        -------
        combined_x : ndarray of bfloat16, shape (tokens, hidden)
        event : EventOverlap
        hook : callable
        """
        result, call = low_latency.combine(self.members, x, topk_idx, topk_weights, handle, out)
        return result, _event(call, async_finish or return_recv_hook), call.wait

    def _check_room(self, most: int, hidden: int, experts: int) -> None:
        check_experts(experts, self.group_size)
        need = size_hint(most, hidden, self.group_size, experts)
        if self.low_latency_mode and need > self.num_rdma_bytes:
            raise CapacityExceeded(
                f"low-latency buffers of rank {self.rank}: need {need} bytes = 2 x ranks "
                f"{self.group_size} x max tokens {most} x experts per rank "
                f"{experts // self.group_size} x message {2 * hidden}, have num_rdma_bytes "
                f"{self.num_rdma_bytes}; give Buffer.get_low_latency_rdma_size_hint(...)"
            )


def _after(event: EventOverlap | None) -> None:
    if event is not None:
        event.current_stream_wait()


def _event(call: Any, later: bool) -> EventOverlap:
    """Return the event of a call; unless it is for later, it has happened."""
    if not later:
        call.wait()
    return EventOverlap(call)
