"""A prompt for every decode group at once: where the mapping of sources shows."""

import numpy as np

from ubnet.transport import WRITE, Transport

from .blocks import BlockList
from .deployment import Deployment
from .transfer import Move, TransferResult, transfer


def burst(
    site: Deployment,
    tokens: int = 4096,
    *,
    transport: str | Transport = "roce",
    op: str = WRITE,
) -> TransferResult:
    """Send one prompt to every decode group from the first prefill group, all at the same time.

    Parameters
    ----------
    site : Deployment
        Whose mapping decides which rank sends; the other prefill groups stay idle.
    tokens : int
        Of each prompt.
    transport, op : str
        How.

    Returns
    -------
    TransferResult
        ``time_ps`` until all are there; no bytes are moved.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> fabric = load_fabric("cloudmatrix384")
    >>> [burst(Deployment(fabric, mapping=m), 16).time_ps // 10**6 for m in ("spread", "first")]
    [510, 14711]
    """
    model = site.model
    head_bytes = model.bytes_per_head * model.layers * tokens
    moves = []
    for dp in range(site.decode_dp):
        routes = site.routes(dp)
        src = site.prefill[0, routes.prefill].tolist()
        dst = site.decode.ravel()[routes.decode].tolist()
        for here, there, heads in zip(src, dst, routes.heads.tolist(), strict=True):
            rows = np.array([(0, 0, heads * head_bytes)])
            moves.append(Move(here, there, BlockList(rows)))
    return transfer(site.fabric, moves, transport=transport, op=op)
