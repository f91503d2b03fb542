"""Rounding to FP8 (e4m3) with one float32 scale for every 128 channels, as DeepEP does.

FP8 values are seen as their bits (uint8), bfloat16 as its bits (uint16). The rounding itself is
ml_dtypes'.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError

from .quantise import FP8_CHANNELS, Bits, Singles, from_bf16, to_bf16

Bytes = NDArray[np.uint8]

FP8_MAX = 448
"""The largest value of e4m3."""
SMALLEST = np.float32(1e-4)
"""A group's largest magnitude counts as this much at least."""
BLOCK_ROWS = 256
"""Rows that are float32 at a time."""


def scale_groups(hidden: int) -> int:
    """Return how many scales a token has; the last group of channels may be shorter.

    >>> scale_groups(7168), scale_groups(130)
    (56, 2)
    """
    return -(-hidden // FP8_CHANNELS)


def fp8_values(held: Bytes) -> NDArray[Any]:
    """Return bits as an array of ml_dtypes.float8_e4m3fn, without a copy."""
    import ml_dtypes

    seen: NDArray[Any] = held.view(ml_dtypes.float8_e4m3fn)
    return seen


def quantise_fp8(tokens: Bits, out: Bytes, inverse: Singles) -> None:
    """Quantise bfloat16 tokens: ``s = 448 / max|x|`` of each 128 channels, ``out = e4m3(x * s)``.

    What is kept and sent beside it is ``1 / s = max|x| / 448``. The error of a value x is at most
    ``|x| / 16``, or ``2**-10`` of a step of the smallest for the tiny ones.

    Parameters
    ----------
    tokens : ndarray of uint16, shape (tokens, hidden)
        Bits of bfloat16.
    out : ndarray of uint8, shape (tokens, hidden)
        Filled with the bits of e4m3.
    inverse : ndarray of float32, shape (tokens, ceil(hidden / 128))
        Filled with 1 / s.

    Raises
    ------
    OptionError
        If a token holds inf or nan.

    Examples
    --------
    >>> x = to_bf16(np.array([[1.0, -2.0, 0.5]], dtype=np.float32))
    >>> q, inverse = np.empty((1, 3), np.uint8), np.empty((1, 1), np.float32)
    >>> quantise_fp8(x, q, inverse)
    >>> fp8_values(q).astype(float).tolist()
    [[224.0, -448.0, 112.0]]
    """
    import ml_dtypes

    hidden = tokens.shape[1]
    starts = np.arange(0, hidden, FP8_CHANNELS)
    for first in range(0, len(tokens), BLOCK_ROWS):
        rows = slice(first, first + BLOCK_ROWS)
        exact = from_bf16(tokens[rows])
        largest = np.maximum.reduceat(np.abs(exact), starts, axis=1)
        if not np.isfinite(largest).all():
            bad = first + int(np.argmin(np.isfinite(largest).all(axis=1)))
            raise OptionError(
                f"token {bad} holds inf or nan, which FP8 cannot carry; use quant='none'"
            )
        largest = np.maximum(largest, SMALLEST)
        inverse[rows] = largest / np.float32(FP8_MAX)
        scale = np.repeat(np.float32(FP8_MAX) / largest, FP8_CHANNELS, axis=1)[:, :hidden]
        # A product may round to a hair above 448, which e4m3fn would take to the next, nan.
        scaled = np.clip(exact * scale, -FP8_MAX, FP8_MAX)
        out[rows] = scaled.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def dequantise_fp8(quantised: Bytes, inverse: Singles) -> Bits:
    """Return FP8 tokens as bfloat16 bits: ``q / s`` in float32, rounded once."""
    scale = np.repeat(inverse, FP8_CHANNELS, axis=1)[:, : quantised.shape[1]]
    return to_bf16(fp8_values(quantised).astype(np.float32) * scale)
