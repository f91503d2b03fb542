"""``ubnet bench kv-blocks``: the transfer engine by block size and batch, as nixlbench does it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from ubnet.cli.bench_pool import counts
from ubnet.cli.latency_row import LatencyResults, LatencyRow, latencies
from ubnet.cli.memory import moves_bytes
from ubnet.cli.options import (
    Way,
    choose_ways,
    fabric_options,
    output_options,
    payload_options,
    sizes_option,
)
from ubnet.errors import OptionError
from ubnet.idle_time import idle_rates
from ubnet.kv import Agent, Carrier, Job, plan_bytes
from ubnet.transport import WRITE
from ubnet.units import PS_PER_S, PS_PER_US


@dataclass(frozen=True, slots=True)
class Batches:
    """What every pair of dies does: so many transfers, one after the other, of so many blocks."""

    block_bytes: int
    batch: int
    pairs: int
    repeats: int
    op: str

    @property
    def nbytes(self) -> int:
        """Bytes of one transfer."""
        return self.block_bytes * self.batch


@click.command("kv-blocks")
@sizes_option("4KiB:64MiB:16", "Bytes of a block")
@click.option(
    "--batch",
    default="1,64",
    show_default=True,
    callback=counts,
    help="Blocks of one transfer; they lie apart on both sides, so each is a message.",
)
@click.option(
    "--pairs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Dies that send at the same time, each to a die of the other half of the fabric.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Transfers of each pair, one after the other.",
)
@click.option("--op", type=click.Choice(["write", "read"]), default="write", show_default=True)
@fabric_options
@payload_options
@output_options
def kv_blocks(
    sizes: list[int],
    batch: list[int],
    pairs: int,
    repeats: int,
    op: str,
    payload: str,
    seed: int,
    as_json: bool,
    plot: Path | None,
    **way_options: Any,
) -> None:
    """Move batches of blocks between dies with prepared lists, and check every byte.

    A prepared list takes no virtual time, so that ``prep`` is 0; ``post`` is what the messages
    cost the engine.
    """
    ways = choose_ways(**way_options, usual="roce,sdma,vpc")
    fabric = ways[0].fabric
    name = fabric.name
    header = [f"fabric {name}, {pairs} pairs of dies, {repeats} transfers each, seed {seed}"]
    results = LatencyResults(
        header, as_json=as_json, plot=plot, where=f"fabric {name}", fabric=fabric
    )
    for count in batch:
        for size in sizes:
            work = Batches(size, count, pairs, repeats, op)
            need = 4 * work.nbytes * pairs
            real = moves_bytes(payload, need, f"kv-blocks of {count} x {size} bytes")
            for way in ways:
                results.add(blocks_row(way, work, real=real, seed=seed))
    results.close()


def blocks_row(way: Way, work: Batches, *, real: bool, seed: int = 1) -> LatencyRow:
    """Run one block size and batch and return its row.

    Parameters
    ----------
    way : Way
        Fabric and transport.
    work : Batches
        What every pair does.
    real : bool
        Move and check real bytes, or take the time alone.
    seed : int
        Of the bytes.
    """
    fabric = way.fabric
    carrier = Carrier(fabric)
    transport = fabric.transport("roce" if way.transport == "auto" else way.transport)
    ends = _ends(way, work.pairs)
    if real:
        jobs, wrong = _move(carrier, work, ends, transport.name, seed)
    else:
        jobs, wrong = _time(carrier, work, ends, transport.name), None
    time_ps = max(job.end_ps for job in jobs)
    carried = carrier.sim.link_bytes() / fabric.capacity
    busiest = int(carried.argmax())
    src, dst = ends[0]
    columns = transport.flows(fabric, work.op, src, dst, work.nbytes, messages=work.batch)
    alone_s = work.repeats * (
        columns.startup_ps[0] / PS_PER_S + work.nbytes / float(idle_rates(fabric, columns)[0])
    )
    taken = latencies([(job.end_ps - job.start_ps) / PS_PER_US for job in jobs])
    post_us = work.batch * transport.post_ps / PS_PER_US
    return LatencyRow.timed(
        time_ps,
        work.nbytes * len(jobs),
        op="kv-blocks",
        case=f"{work.op}, batch {work.batch}",
        transport=transport.name,
        plane=transport.plane,
        ranks=2 * work.pairs,
        wrong=wrong,
        efficiency=min(max(float(carried.max()), alone_s) * PS_PER_S / time_ps, 1.0),
        busiest_link=fabric.resource_names[busiest],
        busiest_link_utilisation=float(carried[busiest]) * PS_PER_S / time_ps,
        count=work.nbytes,
        dtype="uint8",
        block_bytes=work.block_bytes,
        batch=work.batch,
        prepare_us=0.0,
        post_us=post_us,
        transfer_us=taken["latency_avg_us"] - post_us,
        **taken,
    )


def _ends(way: Way, pairs: int) -> list[tuple[int, int]]:
    """Pair dies of the first half of the fabric with those of the second."""
    dies = way.fabric.of_kind("die").tolist()
    half = len(dies) // 2
    if pairs > half:
        raise OptionError(
            f"--pairs {pairs}: fabric {way.fabric.name} has {len(dies)} dies, so at most {half}"
        )
    return [(dies[i * half // pairs], dies[half + i * half // pairs]) for i in range(pairs)]


def _move(
    carrier: Carrier, work: Batches, ends: list[tuple[int, int]], transport: str, seed: int
) -> tuple[list[Job], int]:
    """Move real bytes by NIXL's calls; return the jobs and how many bytes are wrong."""
    rng = np.random.default_rng(seed)
    jobs: list[Job] = []
    sides, handles = [], []
    for i, (src, dst) in enumerate(ends):
        memory = [np.zeros((work.batch, 2 * work.block_bytes), np.uint8) for _ in range(2)]
        memory[0][:] = rng.integers(0, 256, memory[0].shape, dtype=np.uint8)
        agents = [
            Agent(f"{side} {i}", carrier, end, backend=transport)
            for side, end in (("from", src), ("to", dst))
        ]
        lists = []
        for agent, array in zip(agents, memory, strict=True):
            agent.register_memory([array])
            starts = array.ctypes.data + np.arange(work.batch) * 2 * work.block_bytes
            lists.append(np.stack([starts, np.full_like(starts, work.block_bytes)], axis=1))
        driver, passive = agents if work.op == WRITE else agents[::-1]
        driver.add_remote_agent(passive.get_agent_metadata())
        local, remote = lists if work.op == WRITE else lists[::-1]
        handles.append(
            (driver, driver.initialize_xfer(work.op.upper(), local, remote, passive.name))
        )
        sides.append(memory)
    for _ in range(work.repeats):
        for driver, handle in handles:
            driver.transfer(handle)
        carrier.run()
        jobs += [handle.job for _, handle in handles if handle.job is not None]
    cut = work.block_bytes
    wrong = sum(int((a[:, :cut] != b[:, :cut]).sum() + (b[:, cut:] != 0).sum()) for a, b in sides)
    return jobs, wrong


def _time(
    carrier: Carrier, work: Batches, ends: list[tuple[int, int]], transport: str
) -> list[Job]:
    """Take the time alone."""
    jobs: list[Job] = []
    for _ in range(work.repeats):
        plan = plan_bytes(work.nbytes, work.batch)
        jobs += [
            carrier.submit(src, dst, plan, transport=transport, op=work.op) for src, dst in ends
        ]
        carrier.run()
    return jobs
