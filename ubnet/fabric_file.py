"""Fabrics from a TOML file of the user's own: endpoints, switches, links, planes, transports.

A file that joins two nodes of 16 dies with one switch each::

    [fabric]
    name = "two_nodes"

    [[endpoints]]
    name = "node{n}.die{d:02}"
    node = "{n}"
    for = {n = 2, d = 16}

    [[switches]]
    name = "node{n}.switch"
    latency = "200ns"
    for = {n = 2}

    [[links]]
    from = "node{n}.die{d:02}"
    to = "node{n}.switch"
    capacity = "200GB/s"
    latency = "100ns"
    for = {n = 2, d = 16}

    [[links]]
    from = "node0.switch"
    to = "node1.switch"
    capacity = "400Gb/s"
    count = 8

Each entry is repeated for every value of the variables in ``for``. Links go both ways unless
``both = false``; ``count`` lays parallel ones.
"""

import tomllib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np

from ubnet.errors import FabricError, OptionError, did_you_mean
from ubnet.fabric import KINDS, Fabric, Ints
from ubnet.fabric_builder import FabricBuilder
from ubnet.routing import PATHS, add_graph_plane
from ubnet.toml_table import MOST, TomlTable
from ubnet.transport import OPS, Transport, ideal_transports

TOP = ("fabric", "planes", "endpoints", "switches", "links", "engines", "transports")
FABRIC = ("name",)
PLANES = ("paths",)
ENDPOINTS = ("name", "for", "kind", "node", "package", "rack", "memory_rate", "forwards")
SWITCHES = ("name", "for", "tier", "latency", "rack")
LINKS = ("from", "to", "for", "capacity", "latency", "plane", "tier", "count", "both")
ENGINES = ("rate", "kind")
TRANSPORTS = (
    "plane", "startup", "write_startup", "read_startup", "package_startup", "engine", "post",
    "spread", "wire_share", "rate_cap",
)  # fmt: skip


def read_fabric(path: str | Path, *, paths: str | None = None) -> Fabric:
    """Read a fabric from a TOML file.

    Parameters
    ----------
    path : str or Path
        The file.
    paths : {"spray", "ecmp", "hash"}, optional
        The policy of all its planes, instead of what the file says.

    Returns
    -------
    Fabric

    Raises
    ------
    FabricError
        If the file cannot be read or says something unknown; the message names the key, the
        place and what is allowed there.
    OptionError
        If there is no such policy.
    """
    path = Path(path)
    if paths is not None and paths not in PATHS:
        raise OptionError(f"paths is {paths!r}; {did_you_mean(paths, PATHS)}")
    return _FabricFile(TomlTable(path.name, _load(path), TOP), path.stem, paths).build()


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FabricError(f"cannot read fabric file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FabricError(f"{path} is no TOML file: {error}") from None


class _FabricFile:
    """Turns the tables of one file into a fabric."""

    def __init__(self, top: TomlTable, stem: str, paths: str | None) -> None:
        self.top = top
        head = TomlTable(f"{top.place}, [fabric]", top.values.get("fabric", {}), FABRIC)
        self.builder = FabricBuilder(head.text("name", stem), {"file": top.place})
        self.policy = {name: _paths(plane) for name, plane in top.named("planes", PLANES)}
        if paths:
            self.policy = dict.fromkeys(self.policy, paths)
        self.declared = bool(self.policy)
        self.joined: set[str] = set()
        self.default_paths = paths or "spray"
        self.engines: list[str] = []
        self.vertices: dict[str, int] = {}
        self.forwards: list[int] = []
        self.labels: dict[str, dict[Hashable, int]] = {}

    def build(self) -> Fabric:
        self._add_endpoints()
        self._add_switches()
        for table in self.top.tables("links", LINKS):
            self._add_links(table)
        for plane, paths in self.policy.items():
            if plane not in self.joined:
                raise FabricError(
                    f"{self.top.place}: plane {plane!r} has no links; write [[links]] with "
                    f'plane = "{plane}", or leave the plane out'
                )
            add_graph_plane(self.builder, plane, paths, forwards=self.forwards)
        self.builder.options["paths"] = next(iter(self.policy.values()), "spray")
        self._add_engines()
        self._add_transports()
        return self.builder.build()

    def _add_endpoints(self) -> None:
        for table in self.top.tables("endpoints", ENDPOINTS):
            turns = table.loop()
            names = [table.fill("name", turn) for turn in turns]
            self._claim(table, names)
            kind = table.text("kind", "die")
            if kind not in KINDS:
                hint = did_you_mean(kind, KINDS)
                raise FabricError(f"{table.place}: kind is {kind!r}; {hint}")
            named = list(zip(turns, names, strict=True))
            nodes = [table.fill("node", turn, name) for turn, name in named]
            packages = [table.fill("package", turn, name) for turn, name in named]
            numbers = self.builder.add_endpoints(
                names,
                kind,
                node=[self._number("node", node) for node in nodes],
                package=[
                    self._number("package", pair) for pair in zip(nodes, packages, strict=True)
                ],
                rack=[self._number("rack", table.fill("rack", turn, "0")) for turn in turns],
                memory_rate=table.rate("memory_rate", np.inf),
            )
            if table.flag("forwards", False):
                self.forwards += numbers.tolist()
        if not self.vertices:
            raise FabricError(f"{self.top.place} has no endpoints: add [[endpoints]] with a name")

    def _add_switches(self) -> None:
        for table in self.top.tables("switches", SWITCHES):
            turns = table.loop()
            names = [table.fill("name", turn) for turn in turns]
            self._claim(table, names)
            self.builder.add_switches(
                names,
                table.text("tier", "switch"),
                latency_ps=table.time("latency", 0),
                rack=[self._number("rack", table.fill("rack", turn, "0")) for turn in turns],
            )

    def _add_links(self, table: TomlTable) -> None:
        plane = table.text("plane", next(iter(self.policy), "net"))
        if self.declared and plane not in self.policy:
            hint = did_you_mean(plane, self.policy)
            raise FabricError(f"{table.place}: there is no plane {plane!r}; {hint}")
        paths = self.policy.setdefault(plane, self.default_paths)
        turns = table.loop()
        a, b = (self._ends(table, key, turns) for key in ("from", "to"))
        if table.flag("both", True):
            a, b = np.concatenate([a, b]), np.concatenate([b, a])
        cables = table.whole("count", 1)
        if cables * len(a) > MOST:
            raise FabricError(f"{table.place} makes {cables * len(a)} links, at most {MOST}")
        self.joined.add(plane)
        # A sprayed flow uses parallel cables in equal shares, so that they are one resource.
        names = self.builder.link_names(a, b)
        bundle, labels = np.repeat(np.arange(len(a)), cables), names
        if paths != "spray" and cables > 1:
            bundle = np.arange(len(a) * cables)
            labels = [f"{name}#{i}" for name in names for i in range(cables)]
        self.builder.add_links(
            np.repeat(a, cables),
            np.repeat(b, cables),
            capacity=table.rate("capacity"),
            latency_ps=table.time("latency", 0),
            plane=plane,
            tier=table.text("tier", "link"),
            bundle=bundle,
            bundle_names=labels,
        )

    def _add_engines(self) -> None:
        for name, table in self.top.named("engines", ENGINES):
            kind = table.text("kind", "die")
            members = self.builder.endpoints_of(kind)
            if not len(members):
                raise FabricError(f"{table.place}: the fabric has no endpoint of kind {kind!r}")
            rate = table.rate("rate")
            self.builder.add_engines(name, members, capacity=rate, tier=f"{name} engine")
            self.engines.append(name)

    def _add_transports(self) -> None:
        made = [self._transport(n, t) for n, t in self.top.named("transports", TRANSPORTS)]
        for transport in [*made, *ideal_transports(self.policy, made)]:
            self.builder.add_transport(transport)

    def _transport(self, name: str, table: TomlTable) -> Transport:
        plane = table.text("plane", next(iter(self.policy), "net"))
        if plane not in self.policy:
            hint = did_you_mean(plane, self.policy)
            raise FabricError(f"{table.place}: there is no plane {plane!r}; {hint}")
        engine = table.names("engine", OPS)
        for used in engine.values():
            if used not in self.engines:
                hint = did_you_mean(used, self.engines) if self.engines else "write [engines.NAME]"
                raise FabricError(f"{table.place}: there is no engine {used!r}; {hint}")
        both = table.time("startup", 0)
        startup = {(op, "*"): table.time(f"{op}_startup", both) for op in OPS}
        post = table.time("post", 0)
        if engine and min(startup.values()) < post:
            raise FabricError(
                f"{table.place}: a start-up holds the posting of one message, so that it is at "
                f"least post = {table.values['post']!r}"
            )
        return Transport(
            name=name,
            plane=plane,
            startup_ps=startup,
            package_startup_ps=table.time("package_startup", 0)
            if "package_startup" in table
            else None,
            engine=engine,
            post_ps=post,
            spread=table.number("spread", 0.0, low=0),
            wire_share=table.number("wire_share", 1.0, low=1),
            rate_cap=table.rate("rate_cap", np.inf),
            sources=dict.fromkeys(table.values, f"{self.top.place}"),
        )

    def _claim(self, table: TomlTable, names: list[str]) -> None:
        """Number new vertices; no name may stand twice."""
        for name in names:
            if name in self.vertices:
                raise FabricError(
                    f"{table.place}: the name {name!r} stands twice; use every variable of for in "
                    "it, and other names for other entries"
                )
            self.vertices[name] = len(self.vertices)

    def _ends(self, table: TomlTable, key: str, turns: list[dict[str, Any]]) -> Ints:
        names = [table.fill(key, turn) for turn in turns]
        for name in names:
            if name not in self.vertices:
                hint = did_you_mean(name, self.vertices)
                raise FabricError(
                    f"{table.place}: {key} names {name!r}, which is no endpoint or switch; {hint}"
                )
        return np.array([self.vertices[name] for name in names], dtype=np.int64)

    def _number(self, what: str, label: Hashable) -> int:
        """Number the labels of nodes, packages and racks in the order in which they appear."""
        known = self.labels.setdefault(what, {})
        return known.setdefault(label, len(known))


def _paths(table: TomlTable) -> str:
    paths = table.text("paths", "spray")
    if paths not in PATHS:
        raise FabricError(f"{table.place}: paths is {paths!r}; {did_you_mean(paths, PATHS)}")
    return paths
