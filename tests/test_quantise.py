"""Rounding to INT8 and to bfloat16, against numpy and ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ubnet.collectives import quantise as q
from ubnet.errors import OptionError

SHAPES = [(0, 8), (1, 1), (3, 7), (7, 130)]
EVERY_BF16 = np.arange(1 << 16, dtype=np.uint16)


def quantised(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    out = np.empty(tokens.shape, dtype=np.int8)
    inverse = np.empty(len(tokens), dtype=np.float32)
    q.quantise(tokens, out, inverse)
    return out, inverse


def plain(function):
    """Return a kernel as Python runs it."""
    return getattr(function, "py_func", function)


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_is_the_formula(shape):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    tokens = q.to_bf16(x)
    exact = q.from_bf16(tokens)
    out, inverse = quantised(tokens)
    scale = np.float32(127) / np.abs(exact).max(axis=1, initial=0)
    assert np.array_equal(out, np.rint(exact * scale[:, None]).astype(np.int8))
    assert np.array_equal(inverse, np.float32(1) / scale)


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 20)),
        elements=st.floats(-(2.0**100), 2.0**100, width=32),
    )
)
def test_the_error_is_at_most_half_a_step(x):
    tokens = q.to_bf16(x)
    exact = q.from_bf16(tokens).astype(np.float64)
    largest = np.abs(exact).max(axis=1, keepdims=True)
    assume((largest[largest > 0] > 1e-30).all())
    out, inverse = quantised(tokens)
    assert (np.abs(out) <= 127).all()
    back = out.astype(np.float64) * inverse[:, None]
    assert (np.abs(back - exact) <= largest / 254 * (1 + 1e-5)).all()
    rounded = q.from_bf16(q.dequantise(out, inverse))
    assert (np.abs(rounded - exact) <= largest / 254 * (1 + 1e-5) + largest / 256).all()


def test_a_token_of_zeros_and_halves_to_even():
    tokens = q.to_bf16(np.array([[0, 0, 0], [127, 0.5, 1.5], [-127, -0.5, 2.5]], np.float32))
    out, inverse = quantised(tokens)
    assert out.tolist() == [[0, 0, 0], [127, 0, 2], [-127, 0, 2]]
    assert inverse.tolist() == [1, 1, 1]


def test_tiny_tokens_stay_finite():
    tokens = np.array([[1, 0x8001, 0], [0x0100, 0x0080, 0]], dtype=np.uint16)
    out, inverse = quantised(tokens)
    assert np.isfinite(inverse).all()
    assert (np.abs(out) <= 127).all()
    back = out * inverse[:, None]
    assert np.abs(back - q.from_bf16(tokens)).max() <= q.SMALLEST / 254


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_token_that_int8_cannot_carry_is_named(bad):
    x = np.ones((3, 4), dtype=np.float32)
    x[2, 1] = bad
    with pytest.raises(OptionError, match="token 2 holds inf or nan"):
        quantised(q.to_bf16(x))


@given(hnp.arrays(np.uint32, st.integers(0, 50)))
def test_bf16_rounds_like_ml_dtypes(held):
    x = held.view(np.float32)
    with np.errstate(invalid="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    got = q.values(q.to_bf16(x))
    number = ~np.isnan(x)
    assert np.array_equal(q.bits(got)[number], q.bits(expected)[number])
    assert np.isnan(got[~number].astype(np.float32)).all()


def test_bf16_ties_go_to_even():
    for low in (0x3F80, 0x3F81, 0xBF80, 0xBF81):
        tie = np.array([(low << 16) | 0x8000], dtype=np.uint32).view(np.float32)
        assert q.to_bf16(tie).tolist() == [low + (low & 1)]


def test_every_bf16_goes_to_float32_and_back():
    number = ~np.isnan(q.values(EVERY_BF16).astype(np.float32))
    assert np.array_equal(q.to_bf16(q.from_bf16(EVERY_BF16))[number], EVERY_BF16[number])


def test_dequantise_rounds_once():
    out = np.arange(-127, 128, dtype=np.int8)[None, :]
    inverse = np.array([0.0123], dtype=np.float32)
    expected = (out.astype(np.float32) * inverse[:, None]).astype(ml_dtypes.bfloat16)
    assert np.array_equal(q.values(q.dequantise(out, inverse)), expected)


def test_kernels_give_the_same_without_the_compiler():
    x = np.random.default_rng(2).standard_normal((3, 33)).astype(np.float32)
    x[1] = 0
    tokens = q.to_bf16(x)
    slow = np.empty(x.shape, np.uint16)
    plain(q.round_bits)(x.view(np.uint32).reshape(-1), slow.reshape(-1))
    assert np.array_equal(slow, tokens)
    out, inverse = quantised(tokens)
    out2, inverse2 = np.empty_like(out), np.empty_like(inverse)
    assert plain(q.quantise_rows)(tokens, out2, inverse2) == -1
    assert np.array_equal(out, out2)
    assert np.array_equal(inverse, inverse2)
    plain(q.dequantise_rows)(out, inverse, slow)
    assert np.array_equal(slow, q.dequantise(out, inverse))


def test_bytes_of_a_copy():
    assert q.bytes_per_copy(7168, "int8") == 7680
    assert q.bytes_per_copy(7168, "none") == 14336
    with pytest.raises(OptionError, match="int8"):
        q.bytes_per_copy(7168, "int9")


def test_values_are_seen_without_a_copy():
    held = np.zeros((2, 2), np.uint16)
    q.values(held)[0, 0] = 1
    assert held[0, 0] == 0x3F80
