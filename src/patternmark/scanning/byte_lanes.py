"""Vector operations for numba that handle 64 bytes at once, one bit of each in a machine word.

Compilers use vector instructions only for long and simple loops over bytes. Loops over the lines of
sequence files are neither. So the few operations that are needed are written with vectors here, in
LLVM instructions that exist for every processor.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 64
LETTERS_PLACED = 32  # letters that one call of `place_letters` handles
WORDS = 24  # words that one call of `add_signed_ones` handles
_GROUPS = WORDS // 8
_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_VECTOR = ir.VectorType(_BYTE, LANES)


def _fill(value: int) -> ir.Constant:
    return ir.Constant(_VECTOR, [value] * LANES)


def _load_vector(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    place = builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())
    found = builder.load(place)
    found.align = 1
    return found


@intrinsic
def bit_planes(typing: Any, raw: Any, at: Any) -> Any:
    """Return the bits of raw[at : at + 64]: eight words, bit i of word k is bit k of byte i."""
    del typing, at

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = _load_vector(context, builder, signature.args[0], *arguments)
        words = [
            builder.bitcast(
                builder.icmp_signed("<", builder.shl(found, _fill(7 - k)), _fill(0)), _WORD
            )
            for k in range(8)
        ]
        return context.make_tuple(builder, signature.return_type, words)

    eight = types.UniTuple(types.uint64, 8)  # type: ignore[no-untyped-call]
    return eight(raw, types.int64), generate


@intrinsic
def newlines(typing: Any, raw: Any, at: Any) -> Any:
    """Return which bytes of raw[at : at + 64] are newlines: bit i belongs to byte i."""
    del typing, at

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = _load_vector(context, builder, signature.args[0], *arguments)
        return builder.bitcast(builder.icmp_unsigned("==", found, _fill(10)), _WORD)

    return types.uint64(raw, types.int64), generate


@intrinsic
def first_one(typing: Any, word: Any) -> Any:
    """Return the place of the lowest bit of a word that is 1, or 64 if there is none."""
    del typing, word

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def ones(typing: Any, word: Any) -> Any:
    """Return how many bits of a word are 1."""
    del typing, word

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def add_signed_ones(typing: Any, words: Any, plus: Any, sums: Any) -> Any:
    """Add to each sum the ones of its word where `plus` is 1, less the ones where it is 0.

    `words` and `sums` have WORDS entries, of which eight are handled at once: without this, the
    compiler counts the ones of one word after the other.
    """
    del typing, plus

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        eight = ir.VectorType(_WORD, 8)
        made = [
            context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2)
        ]
        words_at, sums_at = (builder.bitcast(a.data, eight.as_pointer()) for a in made)
        positive = ir.Constant(eight, ir.Undefined)
        for lane in range(8):
            place = ir.Constant(ir.IntType(32), lane)
            positive = builder.insert_element(positive, arguments[1], place)
        negative = builder.not_(positive)
        find: Any = cgutils.get_or_insert_function  # numba is typed in part
        count = find(builder.module, ir.FunctionType(eight, [eight]), "llvm.ctpop.v8i64")
        for group in range(_GROUPS):
            some = builder.load(builder.gep(words_at, [ir.Constant(_WORD, group)]))
            place = builder.gep(sums_at, [ir.Constant(_WORD, group)])
            before = builder.load(place)
            ones_of = [
                builder.call(count, [builder.and_(some, sign)]) for sign in (positive, negative)
            ]
            stored = builder.store(builder.add(before, builder.sub(*ones_of)), place)
            some.align = before.align = stored.align = 8
        return context.get_dummy_value()

    return types.void(words, types.uint64, sums), generate


@intrinsic
def copy_letters(typing: Any, raw: Any, at: Any, into: Any, to: Any) -> Any:
    """Write the places in the Latin alphabet of raw[at : at + 64] to into[to : to + 64].

    Return which bytes are not letters: bit i belongs to byte i. Do not use what is written there.
    """
    del typing, at, to

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = _load_vector(context, builder, signature.args[0], *arguments[:2])
        data = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        place = builder.bitcast(builder.gep(data, [arguments[3]]), _VECTOR.as_pointer())
        builder.store(builder.and_(found, _fill(31)), place).align = 1
        is_none = builder.icmp_unsigned("!=", builder.and_(found, _fill(0xC0)), _fill(0x40))
        return builder.bitcast(is_none, _WORD)

    return types.uint64(raw, types.int64, into, types.int64), generate


@intrinsic
def place_letters(
    typing: Any, letters: Any, at: Any, left: Any, known: Any, width: Any, column: Any, into: Any,
    to: Any,
) -> Any:  # fmt: skip
    """Write letter * width + column, and the next columns, for 32 letters: to into[to : to + 32].

    The letters begin at `at` and are below 32. Bit i of `known` says whether letter i is scored; a
    letter that is not scored becomes letter 0. Only the first `left` letters count: for the others
    0 is written. Return how many letters are scored.
    """
    del typing, at, left, known, width, column, to

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        letters, at, left, known, width, column, into, to = arguments
        number = LETTERS_PLACED
        short, long = ir.IntType(16), ir.IntType(32)
        shorts, longs = ir.VectorType(short, number), ir.VectorType(long, number)

        def everywhere(kind: Any, value: Any) -> Any:
            one = builder.insert_element(
                ir.Constant(kind, ir.Undefined), builder.trunc(value, kind.element), first
            )
            lanes = ir.Constant(ir.VectorType(long, number), [0] * number)
            return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), lanes)

        first = ir.Constant(long, 0)
        count = ir.Constant(shorts, list(range(number)))
        data = context.make_array(signature.args[0])(context, builder, letters).data
        eight = ir.VectorType(_BYTE, number)
        found = builder.load(builder.bitcast(builder.gep(data, [at]), eight.as_pointer()))
        found.align = 1
        shifted = builder.lshr(everywhere(longs, known), builder.zext(found, longs))
        counts = builder.trunc(shifted, ir.VectorType(ir.IntType(1), number))
        inside = builder.icmp_signed("<", count, everywhere(shorts, left))
        counts = builder.and_(counts, inside)
        none = ir.Constant(shorts, [0] * number)
        place = builder.mul(
            builder.select(counts, builder.zext(found, shorts), none), everywhere(shorts, width)
        )
        place = builder.add(place, builder.add(count, everywhere(shorts, column)))
        place = builder.select(inside, place, none)
        target = context.make_array(signature.args[6])(context, builder, into).data
        target = builder.bitcast(builder.gep(target, [to]), shorts.as_pointer())
        builder.store(place, target).align = 2
        return builder.zext(builder.ctpop(builder.bitcast(counts, long)), _WORD)

    word = types.int64
    return types.int64(letters, word, word, word, word, word, into, word), generate
