"""Tokens made from (seed, rank, token, channel), and the checks of what became of them.

The values are whole numbers from -64 to 63, so that a check can make them again wherever a row
arrives; weighted sums of them are exact in float32.
"""

import numpy as np
from numpy.typing import NDArray

from ubnet.fabric import Ints
from ubnet.jit import kernel

from .quantise import Bits, Singles


def make_tokens(seed: int, rank: int, tokens: int, hidden: int) -> Bits:
    """Return the tokens of a rank as bits of bfloat16, shape (tokens, hidden).

    >>> from ubnet.collectives.quantise import values
    >>> values(make_tokens(0, 0, 1, 4)).min() >= -64
    np.True_
    """
    out = np.empty((tokens, hidden), dtype=np.uint16)
    one = np.ones(tokens, dtype=np.int64)
    fill_rows(seed, one * rank, np.arange(tokens), one, out)
    return out


@kernel
def mixed(z: int) -> int:
    """Mix 32 bits; only products below 2**63 occur."""
    z = ((z ^ (z >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    z = ((z ^ (z >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return z ^ (z >> 16)


@kernel
def whole_row(seed: int, rank: int, token: int, row: NDArray[np.int8]) -> int:
    """Fill a row with the values of a token; return the largest magnitude."""
    start = mixed((mixed((mixed(seed & 0xFFFFFFFF) + rank) & 0xFFFFFFFF) + token) & 0xFFFFFFFF)
    low, high = np.int8(0), np.int8(0)
    for h in range(len(row)):
        z = start + h * 40503
        row[h] = ((z ^ (z >> 9) ^ (z >> 17)) & 127) - 64
    for h in range(len(row)):
        low, high = min(low, row[h]), max(high, row[h])
    return max(-int(low), int(high))


@kernel
def fill_rows(seed: int, rank: Ints, token: Ints, factor: Ints, out: Bits) -> None:
    """Fill row i with token ``token[i]`` of rank ``rank[i]``, times ``factor[i]`` (1 to 4)."""
    rows, hidden = out.shape
    row = np.empty(hidden, dtype=np.int8)
    single = np.empty(hidden, dtype=np.float32)
    held = single.view(np.uint32)
    for i in range(rows):
        whole_row(seed, rank[i], token[i], row)
        for h in range(hidden):
            single[h] = np.float32(row[h]) * np.float32(factor[i])
        for h in range(hidden):
            out[i, h] = np.uint16(held[h] >> np.uint32(16))


@kernel
def wrong_int8(seed: int, rank: Ints, token: Ints, rows: NDArray[np.int8], inverse: Singles) -> int:
    """Count elements and scales that are not those of token ``token[i]`` of rank ``rank[i]``."""
    hidden = rows.shape[1]
    row = np.empty(hidden, dtype=np.int8)
    wrong = 0
    for i in range(len(rows)):
        largest = whole_row(seed, rank[i], token[i], row)
        scale = np.float32(127.0) / np.float32(largest) if largest else np.float32(1.0)
        wrong += inverse[i] != np.float32(1.0) / scale
        got = rows[i]
        for h in range(hidden):
            wrong += got[h] != np.int8(np.rint(np.float32(row[h]) * scale))
    return wrong


@kernel
def wrong_bf16(seed: int, rank: Ints, token: Ints, factor: Singles, rows: Bits) -> int:
    """Count elements of row i that are not ``factor[i]`` times the token it stands for."""
    hidden = rows.shape[1]
    row = np.empty(hidden, dtype=np.int8)
    single = np.empty(hidden, dtype=np.float32)
    held = single.view(np.uint32)
    wrong = 0
    for i in range(len(rows)):
        whole_row(seed, rank[i], token[i], row)
        got = rows[i]
        for h in range(hidden):
            single[h] = np.float32(row[h]) * factor[i]
        for h in range(hidden):
            b = np.int64(held[h])
            wrong += got[h] != np.uint16((b + 0x7FFF + ((b >> 16) & 1)) >> 16)
    return wrong


def fp8_table() -> NDArray[np.uint8]:
    """Return the bits of every value (column + 64 less) in a group of every largest magnitude.

    Shape (65, 128). The values are those of `quantise_fp8`, found without it: ml_dtypes rounds
    each value by itself.
    """
    import ml_dtypes

    value = np.arange(-64, 64, dtype=np.float32)
    largest = np.maximum(np.arange(65, dtype=np.float32), np.float32(1e-4))[:, None]
    scaled = np.clip(value * (np.float32(448) / largest), -448, 448)
    table: NDArray[np.uint8] = scaled.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return table


@kernel
def wrong_fp8(
    seed: int,
    rank: Ints,
    token: Ints,
    table: NDArray[np.uint8],
    rows: NDArray[np.uint8],
    inverse: Singles,
) -> int:
    """Count elements and scales that are not those of token ``token[i]`` of rank ``rank[i]``."""
    hidden, groups = rows.shape[1], inverse.shape[1]
    row = np.empty(hidden, dtype=np.int8)
    wrong = 0
    for i in range(len(rows)):
        whole_row(seed, rank[i], token[i], row)
        for g in range(groups):
            first, last = g * 128, min(hidden, g * 128 + 128)
            largest = 0
            for h in range(first, last):
                largest = max(largest, abs(int(row[h])))
            top = np.float32(largest) if largest else np.float32(1e-4)
            wrong += inverse[i, g] != top / np.float32(448.0)
            for h in range(first, last):
                wrong += rows[i, h] != table[largest, int(row[h]) + 64]
    return wrong
