"""A deployment: which dies prefill, which decode, who sends to whom, and how fast they compute."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError
from ubnet.fabric import Fabric

from .mapping import Connections, connect
from .model import DEEPSEEK_R1, KVModel

Ints = NDArray[np.int64]

PREFILL_TOKENS_PER_S = 3344.0
"""Of one die: 6,688 tokens/s per NPU of two dies [P, abstract]."""

TOKEN_PS = 50_000_000_000
"""From one token of an answer to the next: under 50 ms [P, abstract]."""

MAPPINGS = ("spread", "first")


@dataclass(frozen=True, eq=False)
class Deployment:
    """Prefill groups and decode groups on the dies of a fabric.

    Attributes
    ----------
    fabric : Fabric
        Where they are.
    model : KVModel
        What they serve.
    prefill_groups, prefill_tp : int
        Prefill instances, and the ranks of each.
    decode_dp, decode_tp : int
        Data-parallel groups of the decode instance, and the ranks of each.
    mapping : {"spread", "first"}
        Which of the ranks that hold the same KV sends: as published, or always the first.
    prefill_rate : float
        Tokens/s of one prefill rank.
    token_ps : int
        Picoseconds a token of an answer takes.
    slots : int
        Requests that a decode group holds at once; 96 tokens per die in flight [P].
    first_die : int
        The die of the first prefill rank; the others follow, the decode ranks behind them.

    Raises
    ------
    OptionError
        If the fabric has too few dies, or the mapping does not divide; see `connect`.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> site = Deployment(load_fabric("cloudmatrix384"))
    >>> site.prefill.shape, site.decode.shape, site.routes(dp=25).prefill.tolist()
    ((3, 32), (320, 1), [2])
    """

    fabric: Fabric
    model: KVModel = DEEPSEEK_R1
    prefill_groups: int = 3
    prefill_tp: int = 32
    decode_dp: int = 320
    decode_tp: int = 1
    mapping: str = "spread"
    prefill_rate: float = PREFILL_TOKENS_PER_S
    token_ps: int = TOKEN_PS
    slots: int = 96
    first_die: int = 0
    prefill: Ints = field(init=False, repr=False)
    decode: Ints = field(init=False, repr=False)
    connections: Connections = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.mapping not in MAPPINGS:
            raise OptionError(f"mapping is {self.mapping!r}; allowed: {', '.join(MAPPINGS)}")
        least = min(self.prefill_groups, self.slots, self.token_ps, self.prefill_rate)
        if least <= 0 or self.first_die < 0:
            raise OptionError(
                "a deployment has 1 prefill group and 1 slot or more, rates above 0, and begins at "
                f"die 0 or later; given: prefill_groups={self.prefill_groups}, slots={self.slots}, "
                f"prefill_rate={self.prefill_rate}, token_ps={self.token_ps}, "
                f"first_die={self.first_die}"
            )
        connections = connect(self.prefill_tp, self.decode_tp, self.decode_dp, self.model.heads)
        dies = self.fabric.of_kind("die")[self.first_die :]
        senders = self.prefill_groups * self.prefill_tp
        need = senders + self.decode_dp * self.decode_tp
        if need > len(dies):
            raise OptionError(
                f"prefill_groups={self.prefill_groups} of prefill_tp={self.prefill_tp} and "
                f"decode_dp={self.decode_dp} of decode_tp={self.decode_tp} need {need} dies from "
                f"die {self.first_die} on; fabric {self.fabric.name} has {len(dies)}"
            )
        object.__setattr__(self, "connections", connections)
        object.__setattr__(self, "prefill", dies[:senders].reshape(-1, self.prefill_tp))
        object.__setattr__(self, "decode", dies[senders:need].reshape(-1, self.decode_tp))
        order = np.argsort(connections.decode, kind="stable")
        cuts = np.searchsorted(
            connections.decode[order], np.arange(self.decode_dp + 1) * self.decode_tp
        )
        object.__setattr__(self, "_rows", (order, cuts))

    def routes(self, dp: int) -> Connections:
        """Return the connections that bring a prompt to decode group `dp`.

        With the mapping ``first`` the first of the ranks that hold the same heads sends.
        """
        order, cuts = self._rows  # type: ignore[attr-defined]
        row = order[cuts[dp] : cuts[dp + 1]]
        c = self.connections
        source = c.prefill[row]
        if self.mapping == "first":
            copies = max(self.prefill_tp // self.model.heads, 1)
            source = source // copies * copies
        return Connections(
            source, c.decode[row], c.first_head[row], c.heads[row], c.prefill_ranks, c.ratio,
            c.group_size,
        )  # fmt: skip

    def prefill_ps(self, tokens: int) -> int:
        """Return how long a prefill group computes on a prompt."""
        return round(tokens / (self.prefill_rate * self.prefill_tp) * 1e12)
