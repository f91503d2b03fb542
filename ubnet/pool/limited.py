"""A transport that also passes a resource of its user: what one client can draw in all."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ubnet.fabric import Fabric
from ubnet.transport import FlowColumns, Transport


@dataclass(frozen=True)
class Limited(Transport):
    """A transport whose flows all pass one more resource of the `Carrier`.

    Attributes
    ----------
    resource : int
        Which.
    """

    resource: int = -1

    def flows(
        self,
        fabric: Fabric,
        op: str,
        src: ArrayLike,
        dst: ArrayLike,
        nbytes: ArrayLike,
        *,
        targets: ArrayLike = 1,
        messages: ArrayLike = 1,
        flow: ArrayLike = 0,
    ) -> FlowColumns:
        """Return the flows that `Transport.flows` gives, each with the resource behind its hops."""
        c = super().flows(
            fabric, op, src, dst, nbytes, targets=targets, messages=messages, flow=flow
        )
        ends = c.route_ptr[1:]
        return FlowColumns(
            nbytes=c.nbytes,
            startup_ps=c.startup_ps,
            route_ptr=c.route_ptr + np.arange(len(c.route_ptr)),
            route_link=np.insert(c.route_link, ends, self.resource),
            route_share=np.insert(c.route_share, ends, 1.0),
            rate_cap=c.rate_cap,
            latency_ps=c.latency_ps,
        )


def limited(transport: Transport, resource: int) -> Limited:
    """Return a transport whose flows pass one more resource."""
    values = {name: getattr(transport, name) for name in Transport.__dataclass_fields__}
    return Limited(**values, resource=resource)
