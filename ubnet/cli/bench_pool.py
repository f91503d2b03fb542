"""``ubnet bench pool``: blocks of the memory pool, from a prefix hit to data in HBM."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from ubnet.cli.latency_row import LatencyResults, LatencyRow, latencies
from ubnet.cli.memory import moves_bytes
from ubnet.cli.options import (
    Way,
    choose_ways,
    fabric_options,
    output_options,
    payload_options,
)
from ubnet.errors import OptionError
from ubnet.idle_time import idle_times
from ubnet.kv import MODELS, Carrier, find_model
from ubnet.pool import MemoryPool, PoolRequest
from ubnet.transport import READ
from ubnet.units import PS_PER_S, PS_PER_US

NAMESPACE = TENANT = "bench"

AUTO_BYTES = 1 << 30
"""Up to here ``auto`` moves real bytes: a second for a row, not a minute."""


def counts(context: click.Context, parameter: click.Parameter, value: str) -> list[int]:
    """Read a list of whole numbers above 0."""
    parts = value.split(",")
    if not all(part.strip().isdecimal() and int(part) for part in parts):
        raise OptionError(
            f"--{parameter.name} {value}: give whole numbers above 0, such as 8 or 8,32,128"
        )
    return [int(part) for part in parts]


@click.command("pool")
@click.option(
    "--tokens",
    default="128,256,512",
    show_default=True,
    callback=counts,
    help="Tokens of a block; published are 128 to 512.",
)
@click.option(
    "--readers",
    default="1,8,32,128",
    show_default=True,
    callback=counts,
    help="Dies that read at the same time, each a block of its own.",
)
@click.option(
    "--model",
    default="deepseek-r1",
    show_default=True,
    help=f"Whose cache: {', '.join(MODELS)}.",
)
@fabric_options
@payload_options
@output_options
def pool(
    tokens: list[int],
    readers: list[int],
    model: str,
    payload: str,
    seed: int,
    as_json: bool,
    plot: Path | None,
    **way_options: Any,
) -> None:
    """Read blocks of the memory pool by many dies at once, over UB and over VPC.

    A read is a lookup by key and the transfer from the DRAM of the block's home; ``prep`` is the
    lookup. Each die reads a block of its own, whose home the hash of its content decides.
    """
    ways = choose_ways(**way_options, usual="sdma,vpc")
    fabric, kept = ways[0].fabric, find_model(model)
    header = [
        f"fabric {fabric.name}, {model}: {kept.bytes_per_token:,} B a token, seed {seed}",
        "prep: the lookup of the key; ratio: the average latency over that of the first transport",
    ]
    results = LatencyResults(
        header, as_json=as_json, plot=plot, where=f"fabric {fabric.name}", fabric=fabric
    )
    for block in tokens:
        for count in readers:
            nbytes = kept.prompt_bytes(block)
            what = f"pool of {count} blocks of {block} tokens"
            need = 3 * nbytes * count
            real = (payload != "auto" or need <= AUTO_BYTES) and moves_bytes(payload, need, what)
            first = None
            for way in ways:
                row = pool_row(way, nbytes, count, f"{block} tokens", real=real, seed=seed)
                first = first or row.latency_avg_us
                results.add(_with_ratio(row, first))
    results.close()


def pool_row(
    way: Way, nbytes: int, readers: int, what: str, *, real: bool, seed: int = 1
) -> LatencyRow:
    """Let readers read a block each and return their row.

    Parameters
    ----------
    way : Way
        Fabric and transport.
    nbytes : int
        Of a block.
    readers : int
        How many.
    what : str
        The block in words, for the case.
    real : bool
        Move and check real bytes, or take the time alone.
    seed : int
        Of the bytes.
    """
    fabric = way.fabric
    dies = fabric.of_kind("die")
    if readers > len(dies):
        raise OptionError(
            f"--readers {readers}: fabric {fabric.name} has {len(dies)} dies, each reads once"
        )
    store = MemoryPool(
        Carrier(fabric), transport=way.transport if way.transport != "auto" else "sdma"
    )
    store.create_namespace(NAMESPACE, TENANT)
    blocks = _fill(store, nbytes, readers, real, seed)
    before = store.carrier.sim.link_bytes()
    start_ps = store.carrier.now_ps
    # Readers stand as far apart as there are dies, as the ranks of many instances would.
    gets = [
        store.client(TENANT, int(dies[i * len(dies) // readers])).get(NAMESPACE, _key(i))
        for i in range(readers)
    ]
    store.carrier.run()
    time_ps = max(get.end_ps for get in gets) - start_ps
    carried = store.carrier.sim.link_bytes() - before
    post_us = fabric.transport(store.transport).post_ps / PS_PER_US
    lookup_us = float(np.mean([get.lookup_ps - get.start_ps for get in gets])) / PS_PER_US
    taken = latencies([get.time_ps / PS_PER_US for get in gets])
    wrong = None
    if real:
        wrong = sum(
            nbytes if get.data is None else int((get.data != block).sum())
            for get, block in zip(gets, blocks, strict=True)
        )
    needed = carried / fabric.capacity
    busiest = int(needed.argmax())
    bound_ps = max(float(needed.max()) * PS_PER_S, _alone_ps(store, gets, nbytes))
    return LatencyRow.timed(
        time_ps,
        nbytes * readers,
        op="pool",
        case=f"{what}, {readers} readers",
        transport=store.transport,
        plane=fabric.transport(store.transport).plane,
        ranks=readers,
        wrong=wrong,
        efficiency=bound_ps / time_ps,
        busiest_link=fabric.resource_names[busiest],
        busiest_link_utilisation=float(needed[busiest]) * PS_PER_S / time_ps,
        count=nbytes,
        dtype="uint8",
        block_bytes=nbytes,
        batch=1,
        prepare_us=lookup_us,
        post_us=post_us,
        transfer_us=taken["latency_avg_us"] - lookup_us - post_us,
        **taken,
    )


def _fill(store: MemoryPool, nbytes: int, count: int, real: bool, seed: int) -> list[Any]:
    """Put a block for each reader, from its own node's first die, and return the blocks."""
    rng = np.random.default_rng(seed)
    writer = store.client(TENANT, int(store.carrier.fabric.of_kind("die")[0]))
    blocks: list[Any] = []
    for i in range(count):
        blocks.append(rng.integers(0, 256, nbytes, dtype=np.uint8) if real else nbytes)
        store.wait(writer.put(NAMESPACE, _key(i), blocks[-1]))
    return blocks


def _alone_ps(store: MemoryPool, gets: list[PoolRequest], nbytes: int) -> float:
    """Return what the longest of the reads takes on an idle fabric."""
    fabric = store.carrier.fabric
    homes = [store.home_of(NAMESPACE, get.key) for get in gets]
    ends = [get.endpoint for get in gets]
    way = fabric.transport(store.transport)
    return float(idle_times(fabric, way, np.array(homes), np.array(ends), nbytes, READ).max())


def _key(number: int) -> bytes:
    return b"block %d" % number


def _with_ratio(row: LatencyRow, first_us: float) -> LatencyRow:
    return replace(row, note=f"ratio {row.latency_avg_us / first_us:.1f}")
