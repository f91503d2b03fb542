"""Rounding to fewer bits: INT8 with one scale per token, and bfloat16; FP8 is in `fp8`.

Kernels see bfloat16 as its bits (uint16) and work row by row, so that no float32 copy of all
tokens is ever made. ``bits(x)`` and ``values(u)`` turn arrays of ml_dtypes into bits and back.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError
from ubnet.jit import kernel

Bits = NDArray[np.uint16]
Singles = NDArray[np.float32]

BF16_BYTES = 2
INT8_MAX = 127
LARGEST_SCALE = np.float32(2.0**126)
"""Keeps s and 1 / s ordinary numbers for the tiniest tokens."""
SMALLEST = np.float32(INT8_MAX) / LARGEST_SCALE
SCALE_BYTES = 512
"""A token's scale is padded to 512 bytes (P, section 4.2)."""

FP8_CHANNELS = 128
"""Channels that share a scale of FP8."""
FP8_HEADER_BYTES = 16
"""Where a token came from, in front of it (DeepEP)."""

QUANTS = ("none", "int8", "fp8")


def bytes_per_copy(hidden: int, quant: str) -> int:
    """Return the bytes of one token copy in a dispatch.

    INT8 brings a scale padded to 512 bytes; FP8 a float32 scale for every 128 channels and 16
    bytes that say where the token came from.

    >>> [bytes_per_copy(7168, quant) for quant in QUANTS]
    [14336, 7680, 7408]

    Raises
    ------
    OptionError
        If the quantisation is unknown.
    """
    check_quant(quant)
    if quant == "fp8":
        return hidden + 4 * -(-hidden // FP8_CHANNELS) + FP8_HEADER_BYTES
    return hidden + SCALE_BYTES if quant == "int8" else BF16_BYTES * hidden


def check_quant(quant: str) -> None:
    """Raise an `OptionError` where a quantisation is unknown."""
    if quant not in QUANTS:
        raise OptionError(f"no quantisation {quant!r}; allowed: {', '.join(QUANTS)}")


def bits(values: NDArray[Any]) -> Bits:
    """Return a bfloat16 array as its bits, without a copy."""
    seen: Bits = values.view(np.uint16)
    return seen


def token_bits(tokens: NDArray[Any], what: str) -> Bits:
    """Return a matrix of bfloat16, or of its bits, as its bits.

    Parameters
    ----------
    tokens : ndarray of bfloat16 or uint16, shape (tokens, hidden)
        What is given.
    what : str
        How a message about them begins.

    Raises
    ------
    OptionError
        If they have another type or shape.
    """
    given = np.asarray(tokens)
    if given.dtype.name == "bfloat16":
        given = bits(np.ascontiguousarray(given))
    if given.ndim != 2 or given.dtype != np.uint16:
        raise OptionError(
            f"{what} {given.dtype} of shape {given.shape}; give a matrix of bfloat16, or its bits "
            "as uint16: ubnet.collectives.quantise.to_bf16(x)"
        )
    return given


def values(held: Bits) -> NDArray[Any]:
    """Return bits as an array of ml_dtypes.bfloat16, without a copy."""
    import ml_dtypes

    seen: NDArray[Any] = held.view(ml_dtypes.bfloat16)
    return seen


def quantise(tokens: Bits, out: NDArray[np.int8], inverse: Singles) -> None:
    """Quantise bfloat16 tokens to INT8, one scale per token: ``s = 127 / max|x|``.

    ``out = round(x * s)`` to the nearest, halves to even, in float32; what is kept and sent is
    ``1 / s``. A token of zeros has ``1 / s = 1``. The error is at most ``max|x| / 254`` (and
    float32's rounding).

    Parameters
    ----------
    tokens : ndarray of uint16, shape (tokens, hidden)
        Bits of bfloat16.
    out : ndarray of int8, shape (tokens, hidden)
        Filled.
    inverse : ndarray of float32, shape (tokens,)
        Filled with 1 / s.

    Raises
    ------
    OptionError
        If a token holds inf or nan.

    Examples
    --------
    >>> x = to_bf16(np.array([[1.0, -2.0, 0.5]], dtype=np.float32))
    >>> q, inverse = np.empty((1, 3), np.int8), np.empty(1, np.float32)
    >>> quantise(x, q, inverse)
    >>> q.tolist()
    [[64, -127, 32]]
    """
    bad = quantise_rows(tokens, out, inverse)
    if bad >= 0:
        raise OptionError(
            f"token {bad} holds inf or nan, which INT8 cannot carry; use quant='none'"
        )


def to_bf16(singles: Singles) -> Bits:
    """Round float32 to bfloat16 bits, to the nearest, halves to even.

    >>> values(to_bf16(np.array([1.00390625, 3.0], dtype=np.float32))).tolist()
    [1.0, 3.0]
    """
    out = np.empty(singles.shape, dtype=np.uint16)
    round_bits(np.ascontiguousarray(singles).view(np.uint32).reshape(-1), out.reshape(-1))
    return out


def from_bf16(held: Bits) -> Singles:
    """Return bfloat16 bits as float32, exactly."""
    wide = held.astype(np.uint32) << np.uint32(16)
    singles: Singles = wide.view(np.float32)
    return singles


def dequantise(quantised: NDArray[np.int8], inverse: Singles) -> Bits:
    """Return INT8 tokens as bfloat16 bits: ``q / s`` in float32, rounded once."""
    out = np.empty(quantised.shape, dtype=np.uint16)
    dequantise_rows(quantised, inverse, out)
    return out


@kernel
def quantise_rows(tokens: Bits, out: NDArray[np.int8], inverse: Singles) -> int:
    """Quantise row by row; return the first row with inf or nan, -1 where there is none."""
    rows, hidden = tokens.shape
    wide = np.empty(hidden, dtype=np.uint32)
    row = wide.view(np.float32)
    top = np.empty(1, dtype=np.uint32)
    top_value = top.view(np.float32)
    for t in range(rows):
        # Without the sign, the bits of finite values have the order of the values.
        largest = np.uint16(0)
        for h in range(hidden):
            largest = max(largest, np.uint16(tokens[t, h] & np.uint16(0x7FFF)))
            wide[h] = np.uint32(tokens[t, h]) << np.uint32(16)
        if largest >= 0x7F80:
            return t
        top[0] = np.uint32(largest) << np.uint32(16)
        if largest == 0:
            scale = np.float32(1.0)
        elif top_value[0] < SMALLEST:
            scale = LARGEST_SCALE
        else:
            scale = np.float32(INT8_MAX) / top_value[0]
        inverse[t] = np.float32(1.0) / scale
        for h in range(hidden):
            out[t, h] = np.int8(np.rint(row[h] * scale))
    return -1


@kernel
def dequantise_rows(quantised: NDArray[np.int8], inverse: Singles, out: Bits) -> None:
    """Turn INT8 rows into bfloat16 bits, rounded to the nearest, halves to even."""
    rows, hidden = quantised.shape
    row = np.empty(hidden, dtype=np.float32)
    wide = row.view(np.uint32)
    for t in range(rows):
        for h in range(hidden):
            row[h] = np.float32(quantised[t, h]) * inverse[t]
        for h in range(hidden):
            held = np.int64(wide[h])
            out[t, h] = np.uint16((held + 0x7FFF + ((held >> 16) & 1)) >> 16)


@kernel
def round_bits(wide: NDArray[np.uint32], out: Bits) -> None:
    """Round the bits of float32 to those of bfloat16; a nan stays a (quiet) nan."""
    for i in range(len(wide)):
        held = np.int64(wide[i])
        if held & 0x7FFFFFFF > 0x7F800000:
            out[i] = np.uint16((held >> 16) | 0x40)
        else:
            out[i] = np.uint16((held + 0x7FFF + ((held >> 16) & 1)) >> 16)
