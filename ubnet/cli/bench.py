"""``ubnet bench``: one subcommand an operation, and the main job on one screen without any."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import click

from ubnet.cli.lazy_group import LazyGroup
from ubnet.collectives.registry import OPERATIONS

OTHERS = {
    "p2p": "One transfer between two endpoints: reads, writes and sends.",
    "dispatch": "MoE: tokens to their experts.",
    "combine": "MoE: the experts' results back to the tokens.",
    "moe": "MoE: dispatch and combine, one after the other.",
    "kv": "The KV cache of a prompt, from prefill to decode.",
    "kv-serve": "Many requests from prefill to decode: queues, transfers and hot spots.",
    "kv-blocks": "The KV transfer engine by block size and batch, in nixlbench's columns.",
    "pool": "Blocks of the memory pool, read by many dies at once.",
    "model-load": "Models into dies, from a bucket or SSD, with and without a pool.",
    "all": "Every collective, one after the other.",
}


def canonical(name: str) -> str:
    """Return an operation's canonical name; it may be written without underscores.

    >>> canonical("alltoall"), canonical("P2P")
    ('all_to_all', 'p2p')
    """
    return _plain_names().get(_plain(name), name)


@cache
def _plain_names() -> Mapping[str, str]:
    return {_plain(name): name for name in helps()}


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def helps() -> dict[str, str]:
    """Return every operation that can be benched, with a line of help."""
    p2p, *others = OTHERS.items()
    collectives = {o.name: f"busbw = algbw x {o.busbw}" for o in OPERATIONS.values()}
    return dict([p2p, *collectives.items(), *others])


def _load(name: str) -> click.Command:
    if name == "p2p":
        from ubnet.cli.bench_p2p import p2p

        return p2p
    if name in ("dispatch", "combine", "moe"):
        from ubnet.cli.bench_moe import command as moe_command

        return moe_command(name)
    if name == "kv":
        from ubnet.cli.bench_kv import kv

        return kv
    if name == "kv-serve":
        from ubnet.cli.bench_kv_serve import kv_serve

        return kv_serve
    if name == "kv-blocks":
        from ubnet.cli.bench_kv_blocks import kv_blocks

        return kv_blocks
    if name == "pool":
        from ubnet.cli.bench_pool import pool

        return pool
    if name == "model-load":
        from ubnet.cli.bench_model_load import model_load

        return model_load
    from ubnet.cli.bench_collectives import command

    return command(name)


@click.pass_context
def _start(context: click.Context, /, **options: Any) -> None:
    if context.invoked_subcommand is not None:
        return
    from ubnet.cli.bench_overview import overview

    overview(**options)


bench = LazyGroup(
    "bench",
    helps(),
    _load,
    canonical=canonical,
    callback=_start,
    params=[
        click.Option(["--json", "as_json"], is_flag=True, help="One JSON object a line."),
        click.Option(
            ["--seed"],
            type=click.IntRange(0, 2**31 - 1),
            default=1,
            show_default=True,
            help="Of the numbers that are sent.",
        ),
    ],
    help="Time operations on a fabric in virtual time, move their bytes and check the results. "
    "Without OP: the main job on one screen; --json and --seed belong to that. "
    "S, the size of a row, is the whole array: for all_gather, reduce_scatter, all_to_all, gather "
    "and scatter the part of one rank times the ranks; algbw = S / time.",
)
"""The group ``ubnet bench``."""
