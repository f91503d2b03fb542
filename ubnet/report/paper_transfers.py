"""Published figures of the fabric's shape, of single transfers and of the KV cache."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ubnet.fabric import FAR, NODE, PACKAGE, Fabric
from ubnet.idle_time import idle_times
from ubnet.kv import find_model, transfer_prompt
from ubnet.transport import READ, WRITE

from .paper_figure import FITTED, FOLLOWS, GIVEN, Figure

Load = Callable[..., Fabric]

LONG, SHORT = 1 << 30, 512
"""Bytes of a transfer for its rate, and for its latency (P, Table 1)."""

TABLE_1 = {
    ("die", READ): ((164, 1.9), (167, 1.2)),
    ("die", WRITE): ((135, 2.1), (137, 1.3)),
    ("cpu", READ): ((147, 1.7), (151, 1.0)),
    ("cpu", WRITE): ((107, 1.9), (110, 1.1)),
}
"""P, Table 1: GB/s and us of 512 B, between nodes and inside one."""

PACKAGE_PAIR = (210, 0.2)
"""S: GB/s and us between two dies of one package."""


def shape_rows(load: Load) -> Iterator[Figure]:
    """Yield counts and rates of the whole supernode."""
    fabric = load("cloudmatrix384")
    links = fabric.links
    tiers = np.array(fabric.tier_names)[links.tier]
    between = _between_switches(fabric, "L1", "L2")
    dies, cpus = fabric.of_kind("die"), fabric.of_kind("cpu")
    switches = [s.tier for s in fabric.switches]
    up = between & (links.src < links.dst)
    first_node = up & (links.src <= links.src[up].min() + 6)
    port = (links.src == dies[0]) & (tiers == tiers[links.src == dies[0]][0])
    counted = (
        ("dies", "", 768, len(dies), GIVEN, "P, D"),
        ("CPUs", "", 192, len(cpus), GIVEN, "P"),
        ("L1 UB switch chips", "", 336, switches.count("L1"), GIVEN, "P"),
        ("L2 UB switch chips", "", 112, switches.count("L2"), GIVEN, "P"),
        ("L1-L2 cables", "", 5376, int(up.sum()), FOLLOWS, "D"),
        ("node uplink", "GB/s", 3136, links.capacity[first_node].sum() / 1e9, FOLLOWS, "P, D"),
        ("die to UB", "GB/s", 196, links.capacity[port].sum() / 1e9, GIVEN, "P"),
    )
    for what, unit, published, ours, kind, source in counted:
        yield Figure("shape", what, unit, published, float(ours), kind, source)


def _between_switches(fabric: Fabric, low: str, high: str) -> NDArray[np.bool_]:
    endpoints = len(fabric.endpoints)
    tier = np.array([""] * endpoints + [s.tier for s in fabric.switches])
    ends = np.stack([tier[fabric.links.src], tier[fabric.links.dst]])
    found: NDArray[np.bool_] = ((ends == low).any(axis=0)) & ((ends == high).any(axis=0))
    return found


def transfer_rows(load: Load) -> Iterator[Figure]:
    """Yield Table 1 and the pair inside a package, by AIV-Direct; rates of 1 GiB."""
    fabric = load("cloudmatrix384")
    for (kind, op), cells in TABLE_1.items():
        for distance, (rate, latency) in zip((FAR, NODE), cells, strict=True):
            where = "between nodes" if distance == FAR else "inside a node"
            what = f"NPU-{'NPU' if kind == 'die' else 'CPU'} {op} {where}"
            yield from _pair(fabric, kind, op, distance, (rate, latency), what, "P Table 1")
    mates = "die-die in a package"
    yield from _pair(fabric, "die", WRITE, PACKAGE, PACKAGE_PAIR, mates, "S", (GIVEN, GIVEN))
    half = load("cloudmatrix384", aiv_cores=24).transport("aiv").engine_fraction
    yield Figure("transfers", "UB peak by 24 of 48 AIV cores", "%", 95, 100 * half, FITTED, "S")


def _pair(
    fabric: Fabric,
    kind: str,
    op: str,
    distance: int,
    published: tuple[float, float],
    what: str,
    source: str,
    kinds: tuple[str, str] = (GIVEN, FITTED),
) -> Iterator[Figure]:
    near = fabric.of_kind(kind)
    other = int(near[fabric.distance(np.zeros(len(near), int), near) == distance][0])
    # Bytes go from source to destination: a write leaves die 0, a read comes to it.
    src, dst = (0, other) if op == WRITE else (other, 0)
    aiv = fabric.transport("aiv")
    long, short = idle_times(fabric, aiv, [src] * 2, [dst] * 2, [LONG, SHORT], op)
    rate = LONG * 1e3 / int(long)
    yield Figure("transfers", what, "GB/s", published[0], rate, kinds[0], source)
    what, short_us = f"{what}, 512 B", int(short) / 1e6
    yield Figure("transfers", what, "us", published[1], short_us, kinds[1], source)


def kv_rows(load: Load) -> Iterator[Figure]:
    """Yield the KV cache of a prompt on its way from prefill to decode."""
    fabric = load("cloudmatrix384")
    model = find_model("deepseek-r1")
    yield Figure("kv", "DeepSeek-R1, a token", "B", 70_272, model.bytes_per_token, FOLLOWS, "P, D")
    moved = transfer_prompt(fabric, tokens=4096, payload=False)
    yield Figure("kv", "4,096 tokens", "MB", 288, moved.nbytes / 1e6, FOLLOWS, "D")
    yield Figure("kv", "4,096 tokens by RoCE", "ms", 11.5, moved.time_ps / 1e9, FOLLOWS, "D")
