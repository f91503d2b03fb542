"""Keys of blocks: a hash of the tokens of a block and of all before them, and of the content."""

from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.errors import OptionError

KEY_BYTES = 16
BLOCK_TOKENS = (128, 512)
"""Blocks hold 128 to 512 tokens [P, section 6]."""


def prefix_keys(tokens: ArrayLike, block_tokens: int = 128) -> list[bytes]:
    """Return the key of each full block of a prompt.

    Two prompts have the same key for a block exactly if they agree in all tokens up to its end.

    Parameters
    ----------
    tokens : array_like of int, shape (tokens,)
        The prompt; what fills no whole block has no key.
    block_tokens : int
        Tokens of a block.

    Examples
    --------
    >>> a, b = np.arange(512), np.arange(512)
    >>> b[200] = 7
    >>> [x == y for x, y in zip(prefix_keys(a), prefix_keys(b))]
    [True, False, False, False]
    """
    row = np.ascontiguousarray(tokens, dtype="<i8")
    if row.ndim != 1 or block_tokens < 1:
        raise OptionError(
            f"a prompt is a row of tokens in blocks of 1 or more, not shape {row.shape} in blocks "
            f"of {block_tokens}"
        )
    keys, before = [], b""
    for end in range(block_tokens, len(row) + 1, block_tokens):
        before = _digest(before + row[end - block_tokens : end].tobytes())
        keys.append(before)
    return keys


def content_key(data: NDArray[np.uint8], salt: bytes = b"") -> bytes:
    """Return the hash of what a block holds; `salt` keeps those of two tenants apart."""
    return _digest(data.tobytes(), salt)


def _digest(data: bytes, salt: bytes = b"") -> bytes:
    # The salt is hashed first: blake2b itself takes 16 bytes at most.
    return blake2b(data, digest_size=KEY_BYTES, key=blake2b(salt, digest_size=32).digest()).digest()
