"""Counts of 64 lanes at once for numba: bit-sliced, added up with carry-save adders.

A machine word holds one bit for each of 64 lanes, and eight words side by side fill a vector.
Counts are bit-sliced: plane b has bit b of the count of every lane. Three words of one weight
become one of the same weight and one of twice it (a carry-save adder). So `CHUNK` words cost about
as many additions as there are words, for all lanes of a vector together.

The additions are written in terms of LLVM's vectors. A compiler keeps the sums of plain loops in
registers only where it can show that arrays do not overlap.
"""

# mypy: ignore-errors

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ABREAST = 8  # words of a vector
CHUNK = 32  # words that are added up together: a power of two
PLANES = 12  # bits of a count: up to 2,048 words, and one more

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, ABREAST)


def _all(value):
    return ir.Constant(_VECTOR, [value] * ABREAST)


def _pointer(context, builder, kind, array, index):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _load(builder, pointer):
    found = builder.load(pointer)
    found.align = 8  # rows begin at any word
    return found


def carry_save(builder, a, b, c):
    """Return the sum of three bits in each lane: what stays, and what is carried."""
    differ = builder.xor(a, b)
    kept = builder.and_(builder.not_(differ), a)
    return builder.xor(differ, c), builder.or_(builder.and_(differ, c), kept)


def add_words(builder, words, planes):
    """Add words, of which there are a power of two, to the first planes; return what is carried.

    It goes down one half before the other: few sums wait at a time, so that registers hold them.
    """
    if len(words) == 1:
        return words[0]
    half = len(words) // 2
    low = add_words(builder, words[:half], planes)
    high = add_words(builder, words[half:], planes)
    weight = half.bit_length() - 1
    planes[weight], carry = carry_save(builder, low, high, planes[weight])
    return carry


def _add_chunk(builder, words, state):
    """Add words to all planes of a state in memory."""
    planes = [builder.load(plane) for plane in state]
    carry = add_words(builder, words, planes)
    for b in range(len(words).bit_length() - 1, len(planes)):
        before = planes[b]
        planes[b] = builder.xor(before, carry)
        carry = builder.and_(before, carry)
    for plane, into in zip(planes, state, strict=True):
        builder.store(plane, into)


@intrinsic
def add_up(typing, table, places, begin, end, column, planes):
    """Count the bits of the vectors table[p + column :][:8], for all p of places[begin:end].

    There are whole chunks of places. The counts go to `planes`, [columns / 8, PLANES, 8] one after
    the other; `column` is the first of eight.
    """
    del typing, begin, end, column

    def generate(context, builder, signature, arguments):
        table, places, begin, end, column, planes = arguments
        rows = context.make_array(signature.args[0])(context, builder, table).data
        listed = context.make_array(signature.args[1])(context, builder, places).data
        rows = builder.gep(rows, [column])
        state = [cgutils.alloca_once_value(builder, _all(0)) for _ in range(PLANES)]
        step = ir.Constant(_WORD, CHUNK)
        with cgutils.for_range_slice(builder, begin, end, step, intp=_WORD) as (index, _):
            words = []
            for i in range(CHUNK):
                at = builder.load(builder.gep(listed, [builder.add(index, ir.Constant(_WORD, i))]))
                at = builder.zext(at, _WORD)
                row = builder.bitcast(builder.gep(rows, [at]), _VECTOR.as_pointer())
                words.append(_load(builder, row))
            _add_chunk(builder, words, state)
        for b, plane in enumerate(state):
            place = builder.add(
                builder.mul(column, ir.Constant(_WORD, PLANES)), ir.Constant(_WORD, b * ABREAST)
            )
            into = _pointer(context, builder, signature.args[5], planes, place)
            builder.store(builder.load(plane), into).align = 8
        return context.get_dummy_value()

    word = types.int64
    return types.void(table, places, word, word, word, planes), generate


@intrinsic
def reaching(typing, planes, column, limit):
    """Return which lanes have a count of at least `limit` in one of eight columns.

    The limit is taken away from all counts bit by bit: those that had to borrow are below.
    """
    del typing, column, limit

    def generate(context, builder, signature, arguments):
        planes, column, limit = arguments
        first = builder.mul(column, ir.Constant(_WORD, PLANES))
        borrowed = _all(0)
        for b in range(PLANES):
            place = builder.add(first, ir.Constant(_WORD, b * ABREAST))
            plane = _load(builder, _pointer(context, builder, signature.args[0], planes, place))
            bit = builder.and_(builder.lshr(limit, ir.Constant(_WORD, b)), ir.Constant(_WORD, 1))
            mask = builder.neg(bit)
            wanted = ir.Constant(_VECTOR, ir.Undefined)
            for i in range(ABREAST):
                wanted = builder.insert_element(wanted, mask, ir.Constant(ir.IntType(32), i))
            either, both = builder.or_(wanted, borrowed), builder.and_(wanted, borrowed)
            borrowed = builder.or_(builder.and_(builder.not_(plane), either), both)
        below = builder.extract_element(borrowed, ir.Constant(ir.IntType(32), 0))
        for i in range(1, ABREAST):
            one = builder.extract_element(borrowed, ir.Constant(ir.IntType(32), i))
            below = builder.and_(below, one)
        return builder.not_(below)

    return types.uint64(planes, types.int64, types.int64), generate
