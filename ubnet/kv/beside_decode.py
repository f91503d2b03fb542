"""What KV transfers do to the dispatch of the decode ranks that they go to.

The reason for a plane of its own [P]: a dispatch ends when its last rank has all its tokens, so
one port that also takes in the KV of a prompt holds up all of them.
"""

import numpy as np

from ubnet.collectives.fused import Fused
from ubnet.collectives.staged import FusedTiming
from ubnet.errors import OptionError
from ubnet.fabric import Ints
from ubnet.transport import WRITE, FlowColumns, Transport

from .deployment import Deployment

SHARING = ("fair", "fifo")


def dispatch_beside_kv(
    site: Deployment,
    *,
    transport: str | Transport | None,
    op: str = WRITE,
    sharing: str = "fair",
    prompts: int | None = None,
    tokens: int = 4096,
    batch: int = 96,
    topk: int = 8,
) -> FusedTiming:
    """Time a decode dispatch while prompts arrive at its ranks.

    Parameters
    ----------
    site : Deployment
        Who prefills and decodes; every decode rank holds an equal share of the experts.
    transport, op : str
        How KV travels; None: no KV at all, to compare with.
    sharing : {"fair", "fifo"}
        How a port that has too much to carry serves the KV: as one flow among the hundreds of
        the dispatch, or as much as it offers, like all packets of a queue (assumed; the truth
        lies between the two).
    prompts : int, optional
        How many arrive at once, each at a rank of its own; default: one from every prefill rank.
    tokens, batch, topk : int
        Of a prompt; of each decode rank; experts of a token.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> site = Deployment(load_fabric("cloudmatrix64"), prefill_groups=1, decode_dp=32)
    >>> times = {
    ...     name: dispatch_beside_kv(site, transport=name, sharing="fifo").time_ps
    ...     for name in (None, "roce", "sdma")
    ... }
    >>> times[None] == times["roce"] < times["sdma"]
    True
    """
    if sharing not in SHARING:
        raise OptionError(f"sharing is {sharing!r}; allowed: {', '.join(SHARING)}")
    ranks = site.decode.size
    copies = _balanced(ranks, batch * topk)
    run = Fused(site.fabric, site.decode.ravel(), copies, np.full(ranks, batch))
    aiv = site.fabric.transport("aiv")
    staged = run.dispatch(aiv)
    if transport is not None:
        way = site.fabric.transport(transport) if isinstance(transport, str) else transport
        streams = _streams(site, way, op, prompts, tokens)
        # As a flow of the dispatch weighs its copies, a whole port weighs all that it takes in.
        weight = 1.0 if sharing == "fair" else float(copies.sum(axis=0).max())
        staged.program.send(streams, np.zeros(len(streams.nbytes), np.int64), weight=weight)
    return staged.timed(site.fabric, aiv, run.started)


def _balanced(ranks: int, copies: int) -> Ints:
    """Share out the copies of each rank over all ranks as evenly as whole numbers allow."""
    rank = np.arange(ranks)
    each, left = divmod(copies, ranks)
    extra = (rank[None, :] - rank[:, None] * left) % ranks < left
    return each + extra.astype(np.int64)


def _streams(
    site: Deployment, way: Transport, op: str, prompts: int | None, tokens: int
) -> FlowColumns:
    """Return a flow from each of the first prefill ranks to a decode rank of its own."""
    senders = site.prefill.ravel()
    count = min(len(senders), site.decode.size) if prompts is None else prompts
    if not 0 <= count <= min(len(senders), site.decode.size):
        raise OptionError(
            f"prompts is {prompts}: at most one from each of {len(senders)} prefill ranks to "
            f"each of {site.decode.size} decode ranks"
        )
    number = np.arange(count)
    target = site.decode.ravel()[number * site.decode.size // max(count, 1)]
    return way.flows(
        site.fabric, op, senders[number], target, site.model.prompt_bytes(tokens), flow=number
    )
