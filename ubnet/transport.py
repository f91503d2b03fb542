"""How bytes are moved: start-up, engines and per-message cost of a transport, as flow columns.

The time of one message is start-up + switches + cables + bytes at the allocated rate. A cost per
message is *occupancy* of the engine: it widens the flow's share of its engine by
``post * engine rate / bytes``, so that equal messages stay equal and share out fairly.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.compressed_rows import pointers
from ubnet.errors import NoRoute, OptionError
from ubnet.fabric import FAR, NODE, PACKAGE, SELF, Fabric, Floats, Ints, Routes
from ubnet.route_laying import behind, for_flows

READ, WRITE = "read", "write"
OPS = (READ, WRITE)


@dataclass(frozen=True, slots=True)
class FlowColumns:
    """What the flow engine needs of many flows.

    Attributes
    ----------
    nbytes, startup_ps : ndarray of int64, shape (flows,)
        Bytes, and start-up with switches and cables in picoseconds.
    route_ptr, route_link : ndarray of int64
        The resources that each flow uses, in compressed rows.
    route_share : ndarray of float64
        The share of the flow on each of them.
    rate_cap : ndarray of float64, shape (flows,)
        The largest rate of each flow in bytes/s.
    latency_ps : ndarray of int64, shape (flows,)
        The part of `startup_ps` that is switches and cables.
    """

    nbytes: Ints
    startup_ps: Ints
    route_ptr: Ints
    route_link: Ints
    route_share: Floats
    rate_cap: Floats
    latency_ps: Ints

    @classmethod
    def joined(cls, parts: Sequence["FlowColumns"]) -> "FlowColumns":
        """Return the flows of all parts, one part behind the other."""
        hops = np.concatenate([np.diff(part.route_ptr) for part in parts])
        return cls(
            nbytes=np.concatenate([part.nbytes for part in parts]),
            startup_ps=np.concatenate([part.startup_ps for part in parts]),
            route_ptr=pointers(hops),
            route_link=np.concatenate([part.route_link for part in parts]),
            route_share=np.concatenate([part.route_share for part in parts]),
            rate_cap=np.concatenate([part.rate_cap for part in parts]),
            latency_ps=np.concatenate([part.latency_ps for part in parts]),
        )

    def post_arguments(self) -> dict[str, Any]:
        """Return what `FlowSim.post` and `simulate_flows` take of them: all but the latency."""
        return {
            "nbytes": self.nbytes,
            "route_ptr": self.route_ptr,
            "route_link": self.route_link,
            "route_share": self.route_share,
            "rate_cap": self.rate_cap,
            "startup_ps": self.startup_ps,
        }


@dataclass(frozen=True)
class Transport:
    """One way to move bytes over one plane.

    Attributes
    ----------
    name, plane : str
        Its name and the plane it uses.
    startup_ps : mapping of (op, passive kind) to int
        Start-up in picoseconds of a read or write whose passive side is of that kind, the posting
        of one message included; ``(op, "*")`` serves every other kind.
    package_startup_ps : int or None
        Start-up between two endpoints of one package, which then holds no engine; None where
        the plane has no link of its own inside a package.
    engine : mapping of op to str
        The kind of engine that the active side holds; none = the ports alone limit it.
    share : mapping of (op, passive kind, distance) to float
        The flow's share of its engine; 1 where nothing stands.
    post_ps : int
        Occupancy of the engine per message, in picoseconds.
    spread : float
        With k targets in a step the share of the engine, the posting included, is multiplied by
        1 + spread (1 - 1/k).
    engine_fraction : float
        The part of the engine's rate that this transport can draw (vector cores in use); an
        engine used by a slower transport is held longer.
    wire_share : float
        Bytes on the wire per byte of payload.
    rate_cap : float
        The largest rate of one flow, in bytes/s.
    automatic : bool
        Whether ``auto`` may choose it.
    sources : mapping of str to str
        For each constant the letter of its source, or the word "assumed" and why.
    """

    name: str
    plane: str
    startup_ps: Mapping[tuple[str, str], int]
    package_startup_ps: int | None = None
    engine: Mapping[str, str] = field(default_factory=dict)
    share: Mapping[tuple[str, str, int], float] = field(default_factory=dict)
    post_ps: int = 0
    spread: float = 0.0
    engine_fraction: float = 1.0
    wire_share: float = 1.0
    rate_cap: float = np.inf
    automatic: bool = True
    sources: Mapping[str, str] = field(default_factory=dict)

    def with_fraction(self, fraction: float) -> "Transport":
        """Return the same transport on a part of its engine's rate."""
        if not 0 < fraction <= 1:
            raise OptionError(f"an engine fraction lies in (0, 1], not {fraction}")
        return replace(self, engine_fraction=fraction)

    def startup_of(self, op: str, passive_kind: str) -> int:
        """Return the start-up in picoseconds of a single message, its posting included."""
        for key in ((op, passive_kind), (op, "*")):
            if key in self.startup_ps:
                return self.startup_ps[key]
        raise NoRoute(f"transport {self.name} has no {op} whose passive side is a {passive_kind}")

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
        """Turn transfers into columns for the flow engine.

        Parameters
        ----------
        fabric : Fabric
            Where they run.
        op : {"read", "write"}
            A write is driven by `src`, a read by `dst`; bytes always go from `src` to `dst`.
        src, dst : array_like of int, shape (flows,)
            Endpoint numbers.
        nbytes : array_like of int
            Bytes of each transfer.
        targets : array_like of int
            How many targets the active engine serves in the same step (k of `spread`).
        messages : array_like of int
            Messages that each transfer counts as (0 = tokens of a fused operator).
        flow : array_like of int
            Numbers the flows of a pair, for hashed paths.

        Returns
        -------
        FlowColumns
            A flow per transfer; transfers to oneself have an empty route and take no time.

        Raises
        ------
        NoRoute
            If a pair is not joined by this transport's plane.
        """
        if op not in OPS:
            raise OptionError(f"op is {op!r}; allowed: read, write")
        src, dst, size, k, m, number = (
            np.ascontiguousarray(c, dtype=np.int64)
            for c in np.broadcast_arrays(
                *map(np.atleast_1d, (src, dst, nbytes, targets, messages, flow))
            )
        )
        fabric.check_endpoints(src, dst)
        routes = fabric.plane(self.plane).router.routes(src, dst, number)
        active, passive = (src, dst) if op == WRITE else (dst, src)
        engine, startup, share = self._engine(fabric, op, active, passive, k)
        post = np.where(engine >= 0, self.post_ps, 0) * m
        # A message of nothing holds its engine for the posting all the same: as one byte does
        # that goes nowhere else and whose share is the posting alone.
        empty = (size == 0) & (post > 0)
        if empty.any():
            size, share[empty], routes = np.where(empty, 1, size), 0, _nowhere(routes, empty)
        share += post * 1e-12 * fabric.capacity[engine] / np.maximum(size, 1) * self._spread(k)
        startup += routes.latency_ps
        ptr, link, part = _with_engine(routes, self.wire_share, engine, share)
        cap = np.where(src == dst, np.inf, self.rate_cap)
        return FlowColumns(size, startup, ptr, link, part, cap, routes.latency_ps)

    def _engine(
        self, fabric: Fabric, op: str, active: Ints, passive: Ints, targets: Ints
    ) -> tuple[Ints, Ints, Floats]:
        """Return each flow's engine (-1 = none), its start-up less the posting, its share."""
        distance = fabric.distance(active, passive)
        own_link = np.full(len(active), SELF)
        if self.package_startup_ps is not None:
            own_link[:] = PACKAGE
        held = distance > own_link
        engine = np.full(len(active), -1)
        if op in self.engine:
            engine[held] = fabric.engines[self.engine[op]][active[held]]
        startup = np.zeros(len(active), dtype=np.int64)
        share = np.ones(len(active))
        startup[distance == PACKAGE] = self.package_startup_ps or 0
        kinds = fabric.kind_of[passive]
        for code in np.unique(kinds[held]):
            kind = fabric.kinds[code]
            mine = held & (kinds == code)
            startup[mine] = self.startup_of(op, kind)
            share[mine] = self.share.get((op, kind, NODE), 1.0)
            share[mine & (distance == FAR)] = self.share.get((op, kind, FAR), 1.0)
        startup[engine >= 0] -= self.post_ps
        share *= self._spread(targets) / self.engine_fraction
        return engine, startup, share

    def _spread(self, targets: Ints) -> Floats:
        """Return what so many targets in a step make of all that a flow takes of its engine."""
        factor: Floats = 1 + self.spread * (1 - 1 / np.maximum(targets, 1))
        return factor


def ideal_transports(planes: Iterable[str], given: Iterable[Transport]) -> list[Transport]:
    """Return a transport without start-up or engine for each plane that `given` leaves out.

    That of the first plane is called ``wire``, the others ``wire_`` and their plane.

    >>> [t.name for t in ideal_transports(["net", "rdma"], [])]
    ['wire', 'wire_rdma']
    """
    given = list(given)
    served, names = {t.plane for t in given}, {t.name for t in given}
    startup = {(WRITE, "*"): 0, (READ, "*"): 0}
    return [
        Transport(
            "wire" if number == 0 and "wire" not in names else f"wire_{plane}",
            plane,
            startup,
            sources={"startup_ps": "assumed: an ideal transport, for want of a better one"},
        )
        for number, plane in enumerate(planes)
        if plane not in served
    ]


def _nowhere(routes: Routes, those: NDArray[np.bool_]) -> Routes:
    """Return routes of which those flows cross nothing."""
    lengths = np.diff(routes.ptr)
    kept = ~np.repeat(those, lengths)
    ptr = np.concatenate([[0], np.cumsum(np.where(those, 0, lengths))])
    return Routes(ptr, routes.resource[kept], routes.share[kept], routes.latency_ps)


def _with_engine(
    routes: Routes, wire_share: float, engine: Ints, share: Floats
) -> tuple[Ints, Ints, Floats]:
    """Put each flow's engine, where it holds one, in front of its route."""
    put = for_flows(behind, len(engine))
    return put(engine, share, routes.ptr, routes.resource, routes.share, wire_share)
