"""What serving requests took: queue, prefill and transfer of each, and the load of each source."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.units import PS_PER_S, PS_PER_US

from .deployment import Deployment
from .requests import Requests

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class SourceLoad:
    """What one source rank sent.

    Attributes
    ----------
    name : str
        Its die.
    transfers, nbytes : int
        How many, and their bytes.
    busy : float
        The part of the whole time that its engine needs for these bytes.
    mean_us, p99_us : float
        Of its transfers.
    """

    name: str
    transfers: int
    nbytes: int
    busy: float
    mean_us: float
    p99_us: float


@dataclass(frozen=True, eq=False, slots=True)
class ServingReport:
    """Times per request and loads per source.

    Attributes
    ----------
    site, requests : Deployment, Requests
        What was run.
    transport, op : str
        How KV travelled.
    group, place : ndarray of int64, shape (requests,)
        The prefill group and the decode group of each request.
    prefill_start_ps, prefill_end_ps, placed_ps, arrived_ps : ndarray of int64, shape (requests,)
        When its prefill began and ended, when it got a place in a decode group, and when its last
        byte was there.
    sent : ndarray of int64, shape (transfers, 4)
        Request, source die, target die and bytes of each transfer.
    """

    site: Deployment
    requests: Requests
    transport: str
    op: str
    group: Ints
    place: Ints
    prefill_start_ps: Ints
    prefill_end_ps: Ints
    placed_ps: Ints
    arrived_ps: Ints
    sent: Ints

    @property
    def queue_us(self) -> Floats:
        """Waiting for prefill, and for a place in a decode group."""
        computed = np.maximum(self.placed_ps - self.prefill_end_ps, 0)
        waited: Floats = (self.prefill_start_ps - self.requests.arrival_ps + computed) / PS_PER_US
        return waited

    @property
    def prefill_us(self) -> Floats:
        """Being computed."""
        return (self.prefill_end_ps - self.prefill_start_ps) / PS_PER_US

    @property
    def transfer_us(self) -> Floats:
        """From the moment that all KV is computed and has a place, until it is there.

        Layer by layer, this is what streaming leaves to wait for.
        """
        begin = np.maximum(self.placed_ps, self.prefill_end_ps)
        return (self.arrived_ps - begin) / PS_PER_US

    @property
    def total_us(self) -> Floats:
        """From arrival until the answer can begin."""
        return (self.arrived_ps - self.requests.arrival_ps) / PS_PER_US

    def source_loads(self) -> list[SourceLoad]:
        """Return the load of every prefill rank, the busiest first."""
        end_ps = int(self.arrived_ps.max(initial=0))
        taken = self.transfer_us[self.sent[:, 0]]
        loads = []
        for die in self.site.prefill.ravel().tolist():
            mine = self.sent[:, 1] == die
            nbytes = int(self.sent[mine, 3].sum())
            times = taken[mine] if mine.any() else np.zeros(1)
            loads.append(
                SourceLoad(
                    name=self.site.fabric.endpoints[die].name,
                    transfers=int(mine.sum()),
                    nbytes=nbytes,
                    busy=nbytes / self._rate(die) * PS_PER_S / end_ps if end_ps else 0.0,
                    mean_us=float(times.mean()),
                    p99_us=float(np.percentile(times, 99)),
                )
            )
        return sorted(loads, key=lambda load: -load.nbytes)

    def _rate(self, die: int) -> float:
        """Return the payload rate of a die's way out, in bytes/s."""
        way, fabric = self.site.fabric.transport(self.transport), self.site.fabric
        other = int(self.site.decode.flat[0])
        columns = way.flows(fabric, self.op, die, other, 1 << 40)
        rates = fabric.capacity[columns.route_link] / columns.route_share
        return float(min(rates.min(), columns.rate_cap.min()))
