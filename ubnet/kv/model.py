"""What a model keeps per token: the sizes of a KV cache, computed from its architecture."""

import re
from dataclasses import dataclass

from ubnet.errors import OptionError, did_you_mean


@dataclass(frozen=True, slots=True)
class KVModel:
    """The figures of a model's architecture that decide how large its KV cache is.

    Attributes
    ----------
    name : str
        What the command line calls it.
    layers : int
        Layers that keep a cache.
    heads : int
        KV heads; ranks of a tensor-parallel group share them out. Multi-head latent attention
        keeps one latent vector for all heads, so it counts as one head that every rank holds.
    parts : tuple of int
        Elements of each tensor kept per token, layer and head: latent and rotary part for latent
        attention, key and value otherwise.
    itemsize : int
        Bytes of one element.
    source : str
        Where the figures come from.

    Examples
    --------
    >>> KVModel("generic", layers=2, heads=4, parts=(128, 128), itemsize=2).bytes_per_token
    4096
    """

    name: str
    layers: int
    heads: int
    parts: tuple[int, ...]
    itemsize: int
    source: str = "given by the caller"

    def __post_init__(self) -> None:
        counts = (self.layers, self.heads, self.itemsize, *self.parts)
        if not self.parts or min(counts) < 1:
            raise OptionError(
                f"model {self.name!r} needs layers, heads, itemsize and every part of at least 1, "
                f"not layers={self.layers}, heads={self.heads}, parts={self.parts}, "
                f"itemsize={self.itemsize}"
            )

    @property
    def bytes_per_head(self) -> int:
        """Bytes that one head keeps per token and layer."""
        return sum(self.parts) * self.itemsize

    @property
    def bytes_per_layer(self) -> int:
        """Bytes per token and layer, all heads together."""
        return self.heads * self.bytes_per_head

    @property
    def bytes_per_token(self) -> int:
        """Bytes per token, all layers together."""
        return self.layers * self.bytes_per_layer

    def prompt_bytes(self, tokens: int) -> int:
        """Return the bytes that a prompt of so many tokens leaves in the cache.

        >>> DEEPSEEK_R1.prompt_bytes(4096)
        287834112
        """
        if tokens < 0:
            raise OptionError(f"a prompt has 0 tokens or more, not {tokens}")
        return tokens * self.bytes_per_token


DEEPSEEK_R1 = KVModel(
    "deepseek-r1",
    layers=61,
    heads=1,
    parts=(512, 64),
    itemsize=2,
    source="[P] section 5: (512 + 64) x 2 B x 61 layers, bfloat16",
)
LLAMA_3_1_70B = KVModel(
    "llama-3.1-70b",
    layers=80,
    heads=8,
    parts=(128, 128),
    itemsize=2,
    source="published model card: 80 layers, 8 KV heads of 128, key and value, bfloat16",
)


GENERIC = re.compile(r"generic:([1-9]\d*)x([1-9]\d*)x([1-9]\d*)(?:x([1-9]\d*))?")


def find_model(name: str) -> KVModel:
    """Return the model of that name.

    Parameters
    ----------
    name : str
        One of `MODELS`, or ``generic:LAYERSxHEADSxDIM`` with ``xITEMSIZE`` where an element has
        not 2 bytes: a model that keeps a key and a value of DIM elements for each KV head.

    Examples
    --------
    >>> find_model("llama-3.1-70b").bytes_per_token, find_model("generic:32x8x128").bytes_per_token
    (327680, 131072)

    Raises
    ------
    OptionError
        If there is none; the message names those there are.
    """
    shape = GENERIC.fullmatch(name)
    if shape is not None:
        layers, heads, dim, itemsize = (int(part or 2) for part in shape.groups())
        return KVModel(name, layers, heads, (dim, dim), itemsize)
    if name not in MODELS:
        raise OptionError(
            f"no KV model {name!r}; {did_you_mean(name, [*MODELS, 'generic:LAYERSxHEADSxDIM'])}"
        )
    return MODELS[name]


MODELS = {model.name: model for model in (DEEPSEEK_R1, LLAMA_3_1_70B)}
