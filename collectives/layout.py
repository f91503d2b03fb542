"""Where token copies lie: the order in which they are sent, the rows in which they arrive.

Expert-contiguous layout (Ascend's `npu_moe_distribute_dispatch`): the rows of a rank are grouped
by its local experts, within an expert by source rank, within a source by token; prefix sums say
where each group starts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import CapacityExceeded
from ubnet.fabric import Ints

from .routing import NO_EXPERT, check_routing


@dataclass(frozen=True, eq=False)
class SendOrder:
    """The copies that one rank sends, sorted by expert, then by token.

    Since experts lie in contiguous blocks, the copies for one peer are contiguous, too.

    Attributes
    ----------
    token, key : ndarray of int64, shape (copies,)
        The token and which of its top-k experts (its key) each copy is for.
    expert_counts : ndarray of int64, shape (experts,)
        Copies for each expert.
    tokens, topk : int
        Shape of the routing it was made from.

    Examples
    --------
    >>> order = send_order(np.array([[2, 0], [0, -1]]), experts=4)
    >>> order.token.tolist(), order.key.tolist(), order.expert_counts.tolist()
    ([0, 1, 0], [1, 0, 0], [2, 0, 1, 0])
    """

    token: Ints
    key: Ints
    expert_counts: Ints
    tokens: int
    topk: int

    def __len__(self) -> int:
        return len(self.token)

    def copies_for(self, first: int, experts: int) -> slice:
        """Return which of the copies are for `experts` experts from number `first` on."""
        begin = int(self.expert_counts[:first].sum())
        return slice(begin, begin + int(self.expert_counts[first : first + experts].sum()))

    def position(self) -> Ints:
        """Return where in this order each (token, key) stands, -1 = nowhere."""
        place = np.full((self.tokens, self.topk), -1, dtype=np.int64)
        place[self.token, self.key] = np.arange(len(self))
        return place


def send_order(topk_idx: NDArray[Any], experts: int, rank: int = 0) -> SendOrder:
    """Sort a rank's copies by expert, then by token.

    Parameters
    ----------
    topk_idx : ndarray of int, shape (tokens, topk)
        Experts of each token, -1 = none.
    experts : int
        Number of experts in all.
    rank : int
        The rank, for the message of an error.

    Raises
    ------
    OptionError
        If an expert does not exist or stands twice for one token.
    """
    check_routing(topk_idx, experts, rank)
    tokens, topk = topk_idx.shape
    chosen = topk_idx.reshape(-1)
    slot = np.flatnonzero(chosen != NO_EXPERT)
    slot = slot[np.argsort(chosen[slot], kind="stable")]
    counts = np.bincount(chosen[slot], minlength=experts).astype(np.int64)
    return SendOrder(slot // topk, slot % topk, counts, tokens, topk)


@dataclass(frozen=True, eq=False)
class ReceiveLayout:
    """The rows of one rank after a dispatch.

    Attributes
    ----------
    counts : ndarray of int64, shape (ranks, local experts)
        Rows that each rank sends for each local expert.
    expert_start : ndarray of int64, shape (local experts + 1,)
        Expert ``l`` has the rows ``expert_start[l]`` to ``expert_start[l + 1]``.
    block_start : ndarray of int64, shape (local experts, ranks)
        The first row of the block that each rank sends to each local expert.

    Examples
    --------
    >>> layout = receive_layout(np.array([[1, 0], [2, 3]]))
    >>> layout.expert_start.tolist(), layout.block_start.tolist()
    ([0, 3, 6], [[0, 1], [3, 3]])
    """

    counts: Ints
    expert_start: Ints
    block_start: Ints

    @property
    def rows(self) -> int:
        """All rows together (A)."""
        return int(self.expert_start[-1])

    @property
    def expert_counts(self) -> Ints:
        """Rows of each local expert, shape (local experts,)."""
        return np.diff(self.expert_start)

    def rows_from(self, source: int) -> Ints:
        """Return the rows that come from one rank, in the order in which it sends them.

        >>> receive_layout(np.array([[1, 0], [2, 3]])).rows_from(1).tolist()
        [1, 2, 3, 4, 5]
        """
        count = self.counts[source]
        rows = np.arange(count.sum())
        rows += np.repeat(self.block_start[:, source] - (np.cumsum(count) - count), count)
        return rows


def receive_layout(counts: Ints) -> ReceiveLayout:
    """Lay out what a rank receives.

    Parameters
    ----------
    counts : ndarray of int64, shape (ranks, local experts)
        Copies that each rank sends to each of this rank's experts.
    """
    by_expert = np.ascontiguousarray(counts.T)
    ends = np.cumsum(by_expert)
    block_start = (ends - by_expert.reshape(-1)).reshape(by_expert.shape)
    expert_start = np.concatenate([[0], np.cumsum(by_expert.sum(axis=1))])
    return ReceiveLayout(counts, expert_start, block_start)


@dataclass(frozen=True)
class StaticBuffer:
    """The buffer that a rank sets aside for what others send it, of a size known beforehand.

    Its size is ``ranks x max_tokens x message`` with ``max_tokens = batch x min(topk, local
    experts)`` [P, section 4.2]. It is a size alone: memory is taken for rows that hold tokens.

    Attributes
    ----------
    ranks, batch, topk, local_experts : int
        Number of ranks, tokens of each at most, experts of a token, experts on a rank.
    message_bytes : int
        Bytes of one token copy.

    Examples
    --------
    EP320, 96 tokens per die, one expert each: the published 225 + 420 MiB.

    >>> [StaticBuffer(320, 96, 8, 1, size).nbytes >> 20 for size in (7680, 14336)]
    [225, 420]
    """

    ranks: int
    batch: int
    topk: int
    local_experts: int
    message_bytes: int

    @property
    def slots(self) -> int:
        """Rows set aside for each source rank (max_tokens)."""
        return self.batch * min(self.topk, self.local_experts)

    @property
    def nbytes(self) -> int:
        """Bytes in all."""
        return self.ranks * self.slots * self.message_bytes

    def check(self, source_rows: Ints, rank: int) -> None:
        """Refuse a dispatch in which a rank would send more rows than there are slots for it.

        Parameters
        ----------
        source_rows : ndarray of int64, shape (ranks,)
            Rows that each rank would send.
        rank : int
            The rank whose buffer this is.

        Raises
        ------
        CapacityExceeded
            Naming need, have and formula; no token is ever dropped.
        """
        source = int(np.argmax(source_rows))
        need = int(source_rows[source])
        if need > self.slots:
            raise CapacityExceeded(
                f"rank {source} would send {need} token copies to rank {rank}, whose buffer has "
                f"{self.slots} slots for each source = batch {self.batch} x min(topk {self.topk}, "
                f"experts per rank {self.local_experts}): need {need * self.message_bytes} bytes, "
                f"have {self.slots * self.message_bytes}; give batch="
                f"{-(-need // min(self.topk, self.local_experts))} or more"
            )
