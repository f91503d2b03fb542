"""Who sends how many token copies to whom: the counts of all ranks, put together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError
from ubnet.fabric import Ints

from .layout import ReceiveLayout, StaticBuffer, receive_layout


@dataclass(frozen=True, eq=False)
class TokenPlan:
    """What every rank must know before tokens move: how many copies go from rank to expert.

    Experts lie in contiguous blocks: expert ``e`` on rank ``e // (experts / ranks)``.

    Attributes
    ----------
    counts : ndarray of int64, shape (ranks, experts)
        Copies that each rank sends to each expert.
    tokens : ndarray of int64, shape (ranks,)
        Tokens of each rank.
    topk : int
        Experts of a token, at most.

    Raises
    ------
    OptionError
        If the experts do not fall into equal blocks.

    Examples
    --------
    >>> plan = TokenPlan(np.array([[1, 1, 0, 0], [0, 2, 1, 1]]), np.array([1, 2]), topk=2)
    >>> plan.copies.tolist()
    [[2, 0], [2, 2]]
    """

    counts: Ints
    tokens: Ints
    topk: int

    def __post_init__(self) -> None:
        check_experts(self.experts, self.ranks)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.counts)

    @property
    def experts(self) -> int:
        """Number of experts on all ranks together."""
        return int(self.counts.shape[1])

    @property
    def local_experts(self) -> int:
        """Experts on each rank."""
        return self.experts // self.ranks

    @property
    def copies(self) -> Ints:
        """Copies from each rank to each rank, own ones on the diagonal."""
        blocks: Ints = self.counts.reshape(self.ranks, self.ranks, -1).sum(axis=2)
        return blocks

    @property
    def hottest(self) -> float:
        """Copies of the hottest expert over the mean of all, 0 where there are none."""
        mean = self.counts.sum() / self.experts
        return float(self.counts.sum(axis=0).max() / mean) if mean else 0.0

    def layout(self, rank: int) -> ReceiveLayout:
        """Return the rows that a rank receives."""
        first = rank * self.local_experts
        return receive_layout(self.counts[:, first : first + self.local_experts])

    def check(self, batch: int, message_bytes: int) -> None:
        """Refuse what does not fit into the static buffers, before anything is sent.

        Parameters
        ----------
        batch : int
            Tokens of a rank that the buffers are made for.
        message_bytes : int
            Bytes of one token copy.

        Raises
        ------
        CapacityExceeded
            Naming the ranks, need, have and formula.
        """
        buffer = StaticBuffer(self.ranks, batch, self.topk, self.local_experts, message_bytes)
        for rank, rows in enumerate(self.copies.T):
            buffer.check(rows, rank)


def check_experts(experts: int, ranks: int) -> None:
    """Raise an `OptionError` where experts do not fall into equal blocks."""
    if ranks < 1 or experts < ranks or experts % ranks:
        above = max(1, -(-experts // max(ranks, 1))) * max(ranks, 1)
        raise OptionError(
            f"{experts} experts on {ranks} ranks: give a multiple of the ranks, such as {above}"
        )


def token_plan(counts: Sequence[NDArray[Any]], tokens: Sequence[int], topk: int) -> TokenPlan:
    """Put together what each rank counted; see `TokenPlan`."""
    return TokenPlan(np.array(counts, dtype=np.int64), np.array(tokens, dtype=np.int64), topk)
