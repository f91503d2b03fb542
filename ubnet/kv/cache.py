"""A paged KV cache: where the pages of a prompt lie in the memory of an endpoint."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.errors import CapacityExceeded, OptionError

from .blocks import BlockList
from .model import KVModel

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PagedCache:
    """One layer after the other, each an array of pages of some tokens.

    Attributes
    ----------
    model : KVModel
        Whose cache it is.
    pages : int
        Pages of each layer.
    page_tokens : int
        Tokens of a page; 16 is what the common serving engines use.

    Examples
    --------
    >>> from ubnet.kv.model import DEEPSEEK_R1
    >>> cache = PagedCache(DEEPSEEK_R1, pages=256)
    >>> cache.page_bytes, cache.nbytes
    (18432, 287834112)
    """

    model: KVModel
    pages: int
    page_tokens: int = 16

    def __post_init__(self) -> None:
        if self.pages < 0 or self.page_tokens < 1:
            raise OptionError(
                f"a cache has 0 pages or more, of 1 token or more, not pages={self.pages}, "
                f"page_tokens={self.page_tokens}"
            )

    @property
    def page_bytes(self) -> int:
        """Bytes of one page of one layer."""
        return self.page_tokens * self.model.bytes_per_layer

    @property
    def nbytes(self) -> int:
        """Bytes of the whole cache."""
        return self.model.layers * self.pages * self.page_bytes

    def pages_of(self, tokens: int) -> int:
        """Return the pages that so many tokens fill, the last one perhaps in part."""
        return -(-tokens // self.page_tokens)

    def offsets(self, table: ArrayLike, tokens: int) -> Ints:
        """Return where the pages of a prompt begin, shape (layers, pages of the prompt).

        Parameters
        ----------
        table : array_like of int, shape (at least `pages_of(tokens)`,)
            The page table: which page of the cache holds the prompt's first, second ... page.
        tokens : int
            Tokens of the prompt.

        Raises
        ------
        CapacityExceeded
            If the table is too short for the prompt or names a page that the cache lacks.
        """
        pages = np.asarray(table, dtype=np.int64)
        need = self.pages_of(tokens)
        if len(pages) < need:
            raise CapacityExceeded(
                f"{tokens} tokens fill {need} pages of {self.page_tokens} tokens, but the page "
                f"table has {len(pages)}: give it {need} pages"
            )
        pages = pages[:need]
        outside = pages[(pages < 0) | (pages >= self.pages)]
        if len(outside):
            raise CapacityExceeded(
                f"the page table names page {outside[0]}, but the cache has pages 0 to "
                f"{self.pages - 1}"
            )
        layer = np.arange(self.model.layers)[:, None]
        return (layer * self.pages + pages) * self.page_bytes


def prompt_blocks(
    source: PagedCache,
    source_table: ArrayLike,
    target: PagedCache,
    target_table: ArrayLike,
    tokens: int,
) -> BlockList:
    """List the blocks that bring a prompt from one cache into another, a block per page and layer.

    Parameters
    ----------
    source, target : PagedCache
        Caches of the same model and page size.
    source_table, target_table : array_like of int
        The prompt's page tables on both sides.
    tokens : int
        Tokens of the prompt; of the last page only what they fill is moved.

    Returns
    -------
    BlockList
        Layer by layer, in the order of the prompt.

    Examples
    --------
    >>> from ubnet.kv.model import DEEPSEEK_R1
    >>> cache = PagedCache(DEEPSEEK_R1, pages=256)
    >>> len(prompt_blocks(cache, range(256), cache, range(255, -1, -1), tokens=4096))
    15616
    """
    if (source.model, source.page_tokens) != (target.model, target.page_tokens):
        raise OptionError(
            f"both caches must hold the same model in pages of the same size, not "
            f"{source.model.name} in pages of {source.page_tokens} tokens and "
            f"{target.model.name} in pages of {target.page_tokens}"
        )
    if tokens < 0:
        raise OptionError(f"a prompt has 0 tokens or more, not {tokens}")
    begin = source.offsets(source_table, tokens)
    to = target.offsets(target_table, tokens)
    filled = np.arange(begin.shape[1]) * source.page_tokens
    filled = np.minimum(tokens - filled, source.page_tokens) * source.model.bytes_per_layer
    length = np.broadcast_to(filled, begin.shape)
    return BlockList(np.stack([begin, to, length], axis=-1).reshape(-1, 3))
