"""Which tokens go to which experts: routings that stand for a trained gate."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError, did_you_mean

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NO_EXPERT = -1
"""What stands in ``topk_idx`` where a token has no (further) expert."""

WEIGHT_GRID = 64
"""Weights are multiples of 1/64 up to 1/4: weighted sums of small whole numbers stay exact."""

MAX_EXPONENT = 16.0
"""Where the search for zipf's exponent ends: one expert then takes all it can."""


@dataclass(frozen=True)
class Routing:
    """A rule that gives every token of every rank its experts and their weights.

    `balanced` is the routing that calibrated rows are modelled with: token ``t`` of rank ``r``
    takes the experts ``(t + stride * j + r) mod experts`` with ``stride = experts // topk``.
    `uniform` draws `topk` different experts at random, `zipf` draws them by popularity
    ``1 / place ** exponent``, the places dealt to the experts at random.

    Attributes
    ----------
    name : {"balanced", "uniform", "zipf"}
        The rule.
    experts, topk : int
        Number of experts, and how many each token takes.
    skew : float or None
        The hottest expert gets `skew` times the mean. For `balanced` and `uniform` expert 0 is
        made the hottest by exchanging one expert of as many tokens as it takes; for `zipf` the
        exponent is chosen so that it holds on average (without skew the exponent is 1).
    seed : int
        Seed of all that is random, weights included.

    Raises
    ------
    OptionError
        If the name is unknown, `topk` is not in 1..experts, or `skew` is not in
        1..experts / topk (no token takes an expert twice).

    Examples
    --------
    >>> topk_idx, weights = Routing("balanced", experts=8, topk=2).of(rank=1, tokens=3)
    >>> topk_idx.tolist()
    [[1, 5], [2, 6], [3, 7]]
    """

    name: str = "balanced"
    experts: int = 256
    topk: int = 8
    skew: float | None = None
    seed: int = 0
    _popularity: Floats | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.name not in ROUTINGS:
            raise OptionError(f"no routing {self.name!r}; {did_you_mean(self.name, ROUTINGS)}")
        if not 1 <= self.topk <= self.experts:
            raise OptionError(
                f"topk is {self.topk} with {self.experts} experts; give 1 to {self.experts}"
            )
        limit = self.experts / self.topk
        if self.skew is not None and not 1 <= self.skew <= limit:
            raise OptionError(
                f"skew is {self.skew}; with {self.experts} experts and topk {self.topk} the "
                f"hottest expert can get 1 to {limit:g} times the mean"
            )
        if self.name == "zipf":
            object.__setattr__(self, "_popularity", self._zipf())

    def of(self, rank: int, tokens: int) -> tuple[Ints, NDArray[np.float32]]:
        """Route the tokens of one rank, the same for the same seed, rank and tokens.

        Parameters
        ----------
        rank, tokens : int
            Number of the rank, and how many tokens it has.

        Returns
        -------
        topk_idx : ndarray of int64, shape (tokens, topk)
            Experts, all different within a row.
        weights : ndarray of float32, shape (tokens, topk)
            Multiples of 1/64 from 1/64 to 1/4.
        """
        generator = np.random.default_rng([self.seed, rank])
        topk_idx = ROUTINGS[self.name](self, rank, tokens, generator)
        if self.skew is not None and self.name != "zipf":
            _heat(topk_idx, 0, self._wanted(rank, tokens), rank)
        shape = (tokens, self.topk)
        weights = generator.integers(1, WEIGHT_GRID // 4 + 1, shape) / np.float32(WEIGHT_GRID)
        return topk_idx, weights.astype(np.float32)

    def counts(self, rank: int, tokens: int) -> Ints:
        """Return how many copies the tokens of one rank send to every expert, shape (experts,)."""
        topk_idx, _ = self.of(rank, tokens)
        counted: Ints = np.bincount(topk_idx.ravel(), minlength=self.experts).astype(np.int64)
        return counted

    def memory_bytes(self, tokens: int) -> int:
        """Return about how much memory routing so many tokens of one rank takes at once."""
        drawn = 0 if self.name == "balanced" else self.experts
        return tokens * 8 * (6 * self.topk + 3 * drawn)

    def _wanted(self, rank: int, tokens: int) -> int:
        """Return the copies that the hottest expert gets from a rank; sums up right over ranks."""
        share = (self.skew or 1.0) * tokens * self.topk / self.experts
        return int(np.floor((rank + 1) * share + 1e-9) - np.floor(rank * share + 1e-9))

    def _balanced(self, rank: int, tokens: int, generator: np.random.Generator) -> Ints:
        stride = self.experts // self.topk
        token = np.arange(tokens, dtype=np.int64)[:, None]
        return (token + stride * np.arange(self.topk) + rank) % self.experts

    def _uniform(self, rank: int, tokens: int, generator: np.random.Generator) -> Ints:
        return _draw(np.ones(self.experts), tokens, self.topk, generator)

    def _by_popularity(self, rank: int, tokens: int, generator: np.random.Generator) -> Ints:
        assert self._popularity is not None
        return _draw(self._popularity, tokens, self.topk, generator)

    def _zipf(self) -> Floats:
        """Return the experts' popularity, the places dealt out by the seed alone."""
        places = np.arange(1, self.experts + 1, dtype=np.float64)
        exponent = 1.0
        if self.skew is not None:
            target = self.skew * self.topk / self.experts
            low, high = 0.0, MAX_EXPONENT
            for _ in range(40):
                exponent = (low + high) / 2
                chance = _chance_of_first(places**-exponent, self.topk)
                low, high = (exponent, high) if chance < target else (low, exponent)
        dealt = np.random.default_rng(self.seed).permutation(self.experts)
        popularity: Floats = (places**-exponent)[dealt]
        return popularity


def check_routing(topk_idx: NDArray[Any], experts: int, rank: int = 0) -> None:
    """Refuse expert numbers that do not exist and tokens that name an expert twice.

    Raises
    ------
    OptionError
        Naming the rank, the token and the expert.
    """
    wrong = (topk_idx < NO_EXPERT) | (topk_idx >= experts)
    if wrong.any():
        token, key = np.argwhere(wrong)[0]
        raise OptionError(
            f"token {token} of rank {rank} names expert {topk_idx[token, key]}; "
            f"allowed: 0 to {experts - 1}, or {NO_EXPERT} for none"
        )
    ordered = np.sort(topk_idx, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_EXPERT)
    if twice.any():
        token, key = np.argwhere(twice)[0]
        raise OptionError(
            f"token {token} of rank {rank} names expert {ordered[token, key]} twice; "
            f"give each expert once and {NO_EXPERT} for the rest"
        )


def _draw(popularity: Floats, tokens: int, topk: int, generator: np.random.Generator) -> Ints:
    """Draw different experts for each token: the first `topk` in a race of exponential clocks."""
    times = generator.standard_exponential((tokens, len(popularity))) / popularity
    first = np.argpartition(times, topk - 1, axis=1)[:, :topk]
    order = np.argsort(np.take_along_axis(times, first, axis=1), axis=1, kind="stable")
    drawn: Ints = np.take_along_axis(first, order, axis=1).astype(np.int64)
    return drawn


def _chance_of_first(popularity: Floats, topk: int) -> float:
    """Return how likely the most popular expert is among a token's `topk`.

    The race of `_draw` ends near the time at which `topk` of the clocks have rung on average,
    which is exact for many experts.
    """
    low, high = 1e-9, topk / popularity.min() * 64
    for _ in range(80):
        end = float(np.sqrt(low * high))
        rung = -np.expm1(-popularity * end).sum()
        low, high = (end, high) if rung < topk else (low, end)
    return float(-np.expm1(-popularity[0] * low))


def _heat(topk_idx: Ints, hot: int, wanted: int, rank: int) -> None:
    """Give expert `hot` as many of the tokens as `wanted`, in place, spread over them evenly."""
    without = np.flatnonzero((topk_idx != hot).all(axis=1))
    missing = wanted - (len(topk_idx) - len(without))
    if missing <= 0:
        return
    chosen = without[np.arange(missing) * len(without) // missing]
    topk_idx[chosen, (np.arange(missing) + rank) % topk_idx.shape[1]] = hot


ROUTINGS = {
    "balanced": Routing._balanced,
    "uniform": Routing._uniform,
    "zipf": Routing._by_popularity,
}
