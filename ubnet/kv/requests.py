"""Requests to a serving instance: when they arrive, and how long prompts and answers are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError
from ubnet.flow_faults import HORIZON_PS
from ubnet.units import PS_PER_S

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Requests:
    """Requests as columns, in order of arrival.

    Attributes
    ----------
    arrival_ps : ndarray of int64, shape (requests,)
        When each arrives, ascending.
    prompt, answer : ndarray of int64, shape (requests,)
        Tokens of its prompt and of its answer.
    """

    arrival_ps: Ints
    prompt: Ints
    answer: Ints

    def __post_init__(self) -> None:
        shapes = {column.shape for column in (self.arrival_ps, self.prompt, self.answer)}
        if len(shapes) != 1 or self.arrival_ps.ndim != 1:
            raise OptionError("arrival_ps, prompt and answer are rows of one length")
        if (self.arrival_ps < 0).any() or (np.diff(self.arrival_ps) < 0).any():
            raise OptionError("requests arrive at 0 ps or later, in ascending order")
        if (self.prompt < 1).any() or (self.answer < 0).any():
            raise OptionError("a prompt has 1 token or more and an answer 0 or more")

    def __len__(self) -> int:
        return len(self.arrival_ps)


def poisson_requests(
    count: int,
    per_second: float,
    rng: np.random.Generator,
    *,
    mean_prompt: int = 4096,
    mean_answer: int = 512,
    longest: int = 32_768,
) -> Requests:
    """Draw requests of mixed length that arrive at random.

    Gaps are exponential; lengths are log-normal with a spread of 1 (about half of the tokens are
    in the longest sixth of the prompts, as in published traces; assumed) and cut at `longest`.

    Parameters
    ----------
    count : int
        How many.
    per_second : float
        Their mean rate.
    rng : numpy.random.Generator
        All randomness.
    mean_prompt, mean_answer, longest : int
        Mean lengths before cutting, and the cut, in tokens.

    Examples
    --------
    >>> drawn = poisson_requests(1000, 50.0, np.random.default_rng(1))
    >>> len(drawn), bool(15 < drawn.arrival_ps[-1] / 1e12 < 25)
    (1000, True)
    """
    if count < 0 or not 0 < per_second < np.inf or min(mean_prompt, mean_answer, longest) < 1:
        raise OptionError(
            f"give 0 requests or more, a rate above 0 and lengths of 1 token or more, not "
            f"count={count}, per_second={per_second}, mean_prompt={mean_prompt}, "
            f"mean_answer={mean_answer}, longest={longest}"
        )
    arrival = np.cumsum(rng.exponential(PS_PER_S / per_second, count))
    if count and arrival[-1] > HORIZON_PS:
        raise OptionError(
            f"{count} requests at {per_second:g} a second arrive after the end of the clock, 13 "
            "days: give a higher rate or fewer requests"
        )
    # A log-normal of spread 1 has the mean exp(1/2) times its median.
    prompt, answer = (
        np.clip(np.rint(rng.lognormal(np.log(mean) - 0.5, 1.0, count)), 1, longest)
        for mean in (mean_prompt, mean_answer)
    )
    return Requests(arrival.astype(np.int64), prompt.astype(np.int64), answer.astype(np.int64))
