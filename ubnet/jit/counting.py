"""Counting upwards, and the lesser of two, in as few steps as a processor needs.

Numba's own `range` counts by any step in either direction, and its own `min` takes any number of
values: a fifth of all that it wrote for the engine's kernels was for these two.
"""

from typing import Any

import numba
from numba.core import types

# LLVM's types by Numba's own names: llvmlite is a package of Numba's, not of ours.
from numba.core.cgutils import alloca_once, gep_inbounds, ir  # type: ignore[attr-defined]
from numba.core.imputils import RefType, iternext_impl
from numba.extending import lower_builtin, models, register_model

from .word import word

Iterator: Any = types.SimpleIteratorType  # type: ignore[attr-defined]


class Counting(Iterator):
    """What Numba takes `upto` for: an iterator over whole numbers."""

    def __init__(self) -> None:
        super().__init__("upto", numba.int64)


counting = Counting()


@register_model(Counting)
class _Place(models.PrimitiveModel):
    """A pointer to the next number and the end."""

    def __init__(self, data_model: Any, kind: Any) -> None:
        super().__init__(data_model, kind, ir.ArrayType(ir.IntType(64), 2).as_pointer())


def _begin(builder: Any, first: Any, end: Any) -> Any:
    """Write down where a count begins and ends."""
    place = alloca_once(builder, ir.ArrayType(ir.IntType(64), 2))
    builder.store(first, gep_inbounds(builder, place, 0, 0))
    builder.store(end, gep_inbounds(builder, place, 0, 1))
    return place


def _from_zero(typing_context: Any, end: Any) -> Any:
    """Compile the start of a count from 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _begin(builder, arguments[0].type(0), arguments[0])

    return counting(numba.int64), generate


def _from(typing_context: Any, first: Any, end: Any) -> Any:
    """Compile the start of a count."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _begin(builder, *arguments)

    return counting(numba.int64, numba.int64), generate


@lower_builtin("iternext", Counting)
@iternext_impl(RefType.UNTRACKED)
def _go_on(context: Any, builder: Any, signature: Any, arguments: Any, result: Any) -> None:
    """Compile one step of a count."""
    next_place = gep_inbounds(builder, arguments[0], 0, 0)
    number, end = builder.load(next_place), builder.load(gep_inbounds(builder, arguments[0], 0, 1))
    result.set_valid(builder.icmp_signed("<", number, end))
    result.yield_(number)
    builder.store(builder.add(number, number.type(1), flags=("nsw",)), next_place)


def _choose(sign: str) -> Any:
    """Return the way to compile a choice between two numbers."""

    def choose(typing_context: Any, one: Any, other: Any) -> Any:
        kind = typing_context.unify_pairs(types.unliteral(one), types.unliteral(other))
        if not isinstance(kind, types.Float) and kind not in types.signed_domain:
            raise numba.TypingError(f"{one} or {other}: signed integers and reals have an order")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, b = arguments
            compare = builder.fcmp_ordered if isinstance(kind, types.Float) else builder.icmp_signed
            return builder.select(compare(sign, b, a), b, a)

        return kind(kind, kind), generate

    return choose


upto = word(_from_zero, range)
between = word(_from, range)
lesser = word(_choose("<"), min)
greater = word(_choose(">"), max)
