"""Where the copies of a rank's tokens go: routing, placement and layout put together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError, did_you_mean
from ubnet.fabric import Ints

from .placement import Placement
from .rank_packed import rank_index
from .routing import Routing

EXPERT, PADDED, RANK = "expert", "padded", "rank"
LAYOUTS = (EXPERT, PADDED, RANK)
"""expert: rows grouped by expert (Ascend); padded: as many rows for every expert (DeepEP low
latency, pplx); rank: a token once for each rank (DeepEP normal)."""


@dataclass(frozen=True, eq=False)
class Gate:
    """Gives every token of every rank its targets: expert slots, or ranks for layout ``rank``.

    Attributes
    ----------
    routing : Routing
        Which experts a token takes.
    ranks : int
        Number of ranks.
    placement : Placement or None
        Where experts stand; None: expert e in slot e.
    layout : {"expert", "padded", "rank"}
        How rows lie where they arrive.

    Raises
    ------
    OptionError
        If the layout is unknown, or the placement is for other experts or ranks.

    Examples
    --------
    Four experts on two ranks; for layout ``rank`` both experts of token 0 are one copy:

    >>> gate = Gate(Routing("balanced", experts=4, topk=2), ranks=1, layout="rank")
    >>> gate.of(rank=0, tokens=1)[0].tolist(), gate.targets
    ([[0, -1]], 1)
    """

    routing: Routing
    ranks: int
    placement: Placement | None = None
    layout: str = EXPERT

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise OptionError(f"no layout {self.layout!r}; {did_you_mean(self.layout, LAYOUTS)}")
        known = self.placement
        if known is not None and (known.experts, known.ranks) != (self.routing.experts, self.ranks):
            raise OptionError(
                f"the placement is for {known.experts} experts on {known.ranks} ranks, the "
                f"routing for {self.routing.experts} on {self.ranks}: give the same numbers"
            )

    @property
    def slots(self) -> int:
        """Expert slots on all ranks together."""
        return self.routing.experts if self.placement is None else self.placement.slots

    @property
    def targets(self) -> int:
        """Number of targets: a multiple of the ranks, in equal blocks on them."""
        return self.ranks if self.layout == RANK else self.slots

    @property
    def keys(self) -> int:
        """Targets of a token at most."""
        shared = 0 if self.placement is None else min(1, len(self.placement.shared))
        return self.routing.topk + shared

    def of(self, rank: int, tokens: int) -> tuple[Ints, NDArray[np.float32]]:
        """Return the targets of a rank's tokens and their weights, both (tokens, keys).

        A token has each target once; -1 = none. For layout ``rank`` all weights are 1: there the
        experts' owner has weighted and summed before results go back.
        """
        chosen, weights = self.routing.of(rank, tokens)
        if self.placement is not None:
            chosen = self.placement.slots_of(chosen, rank)
            weights = self.placement.weights_of(weights)
        if self.layout != RANK:
            return chosen, weights
        owners = rank_index(chosen, self.slots, self.ranks, rank)
        return owners, np.ones(owners.shape, dtype=np.float32)

    def counts(self, rank: int, tokens: int) -> Ints:
        """Return how many copies a rank sends to each target, shape (targets,)."""
        chosen, _ = self.of(rank, tokens)
        active = chosen[chosen >= 0]
        counted: Ints = np.bincount(active, minlength=self.targets).astype(np.int64)
        return counted
