"""What each link carried, how full it was, and which flows' bytes it held back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.bounds import Bounds, lower_bounds
from ubnet.column import capacities
from ubnet.flowsim import FlowSim
from ubnet.posted_flows import check_names
from ubnet.units import PS_PER_S

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinkReport:
    """A run of flows as its links saw it.

    Attributes
    ----------
    makespan_ps : int
        When the last flow ended.
    carried : ndarray of float64, shape (links,)
        Bytes times share.
    mean, peak : ndarray of float64, shape (links,)
        Utilisation: over the whole run, and the highest at any instant.
    held : ndarray of float64, shape (links,)
        Share of all bytes that moved while this link was what held their flow back; what is
        missing from 1 was held back by caps of the flows' own.
    bounds : Bounds
        What the makespan is at least.
    """

    makespan_ps: int
    carried: Floats
    mean: Floats
    peak: Floats
    held: Floats
    bounds: Bounds

    @property
    def efficiency(self) -> float:
        """The lower bound over the makespan; 1 where there was nothing to do."""
        return self.bounds.ps / self.makespan_ps if self.makespan_ps else 1.0

    def tiers(self, tier_of: Sequence[str]) -> Mapping[str, dict[str, float]]:
        """Return bytes, mean and peak utilisation and bytes held back of each tier.

        Parameters
        ----------
        tier_of : sequence of str, length links
            The tier of each link; the mean is that of its links, the peak their highest.
        """
        names = np.array(tier_of)
        table = {}
        for tier in dict.fromkeys(tier_of):
            here = names == tier
            table[tier] = {
                "bytes": float(self.carried[here].sum()),
                "mean": float(self.mean[here].mean()),
                "peak": float(self.peak[here].max()),
                "held": float(self.held[here].sum()),
            }
        return table


def report_links(capacity: "ArrayLike", **columns: Any) -> LinkReport:
    """Run flows and watch their links at every event.

    Parameters
    ----------
    capacity, **columns : arrays
        As in `ubnet.simulate_flows`.

    Raises
    ------
    FlowError
        As `ubnet.simulate_flows` does.
    TypeError
        For a name that is none of its columns, or where one is missing.

    Examples
    --------
    Two flows share the first link, which holds both back:

    >>> report = report_links([1e9, 4e9], start_ps=0, nbytes=[1000, 1000],
    ...                       route_ptr=[0, 1, 3], route_link=[0, 0, 1])
    >>> report.makespan_ps, report.peak.tolist(), report.held.tolist(), report.efficiency
    (2000000, [1.0, 0.125], [1.0, 0.0], 1.0)
    """
    check_names("report_links", lower_bounds, columns)
    rates = capacities(capacity)
    sim = FlowSim(rates)
    sim.post(**columns)
    peak, held = np.zeros(len(rates)), np.zeros(len(rates) + 1)
    while (event := sim.next_event()) is not None:
        if event > sim.now_ps:
            peak = np.maximum(peak, sim.link_rate() / rates)
            held += sim.held_rate() * ((event - sim.now_ps) / PS_PER_S)
        sim.run_until(event)
    makespan = int(sim.finish_ps.max(initial=0))
    carried = sim.link_bytes()
    total = held.sum()
    return LinkReport(
        makespan,
        carried,
        carried / rates / (makespan / PS_PER_S) if makespan else np.zeros(len(rates)),
        peak,
        held[:-1] / total if total else held[:-1],
        lower_bounds(capacity, **columns),
    )
