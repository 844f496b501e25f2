"""Numbers of 64 lanes at once for numba: counts that are bit-sliced, and small numbers in vectors.

A machine word holds one bit for each of 64 lanes. A count of every lane is bit-sliced: plane b has
bit b of all counts. Three words of one weight become one of the same weight and one of twice it (a
carry-save adder), so that adding up words costs about one addition a word.

All is written in terms of LLVM's vectors: loops over arrays would have to be shown not to overlap
before a compiler keeps their sums in registers.
"""

# mypy: ignore-errors

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 64
ABREAST = 8  # words that are counted side by side
CHUNK = 32  # words that are added up together: a power of two
PLANES = 6  # bits of a count of up to CHUNK
_WORD, _BYTE, _SHORT = ir.IntType(64), ir.IntType(8), ir.IntType(16)
_EIGHT = ir.VectorType(_WORD, ABREAST)
_BYTES = ir.VectorType(_BYTE, LANES)
_SHORTS = ir.VectorType(_SHORT, LANES)
_BITS = ir.VectorType(ir.IntType(1), LANES)


def _carry_save(builder, a, b, c):
    """Return the sum of three bits in each lane: what stays, and what is carried."""
    differ = builder.xor(a, b)
    kept = builder.and_(builder.not_(differ), a)
    return builder.xor(differ, c), builder.or_(builder.and_(differ, c), kept)


def _add_words(builder, words, planes):
    """Add words, of which there are a power of two, to the first planes; return what is carried.

    It goes down one half before the other: few sums wait at a time, so that registers hold them.
    """
    if len(words) == 1:
        return words[0]
    half = len(words) // 2
    low = _add_words(builder, words[:half], planes)
    high = _add_words(builder, words[half:], planes)
    weight = half.bit_length() - 1
    planes[weight], carry = _carry_save(builder, low, high, planes[weight])
    return carry


def _data(context, builder, signature, arguments, number):
    return context.make_array(signature.args[number])(context, builder, arguments[number]).data


def _vector(builder, kind, data, index):
    return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())


def _load(builder, kind, data, index):
    found = builder.load(_vector(builder, kind, data, index))
    found.align = kind.element.width // 8  # rows begin anywhere
    return found


def _store(builder, kind, data, index, value):
    builder.store(value, _vector(builder, kind, data, index)).align = kind.element.width // 8


def _everywhere(builder, kind, value):
    """Return a vector that has one value in all lanes."""
    zero = ir.Constant(ir.IntType(32), 0)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, zero)
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), lanes)


def _operation(builder, name, kind, a, b):
    """Call one of LLVM's operations on two vectors: uadd.sat, usub.sat, sadd.sat, umax, smax."""
    full = f"llvm.{name}.v{kind.count}i{kind.element.width}"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind, kind]), full
    )
    return builder.call(function, [a, b])


@intrinsic
def count_chunk(typing, table, places, at, start, planes):
    """Count the words table[place + start + 0..7] of the CHUNK places from `at` on: into planes.

    `planes` are PLANES times eight words.
    """
    del typing, at, start

    def generate(context, builder, signature, arguments):
        table, places, planes = (
            _data(context, builder, signature, arguments, number) for number in (0, 1, 4)
        )
        table = builder.gep(table, [arguments[3]])
        words = []
        for i in range(CHUNK):
            index = builder.add(arguments[2], ir.Constant(_WORD, i))
            place = builder.load(builder.gep(places, [index]))
            words.append(_load(builder, _EIGHT, table, place))
        state = [ir.Constant(_EIGHT, [0] * ABREAST)] * (PLANES - 1)
        carry = _add_words(builder, words, state)
        for b, plane in enumerate([*state, carry]):
            _store(builder, _EIGHT, planes, ir.Constant(_WORD, b * ABREAST), plane)
        return context.get_dummy_value()

    word = types.int64
    return types.void(table, places, word, word, planes), generate


def _count_of(builder, planes, which):
    """Return the count of each lane, one byte each, from its planes."""
    total = ir.Constant(_BYTES, [0] * LANES)
    for b in range(PLANES):
        index = builder.add(which, ir.Constant(_WORD, b * ABREAST))
        bits = builder.bitcast(builder.load(builder.gep(planes, [index])), _BITS)
        more = builder.add(total, ir.Constant(_BYTES, [1 << b] * LANES))
        total = builder.select(bits, more, total)
    return total


@intrinsic
def extend_stretch(typing, planes, which, bias, cost, before, after, at, best, place, label):
    """Lengthen, or begin, a stretch in 64 lanes by one segment at one shift.

    The score of a stretch grows by the count of the segment (word `which` of `planes`) less `bias`;
    it comes from the same shift, or for `cost` from the next one on either side, and is never below
    0. `before` and `after` are rows of 64 bytes, `at` is where the row of this shift begins. Where
    a score is a lane's `best` so far, its `place` becomes `label`.
    """
    del typing

    def generate(context, builder, signature, arguments):
        planes, before, after, best, place = (
            _data(context, builder, signature, arguments, number) for number in (0, 4, 5, 7, 8)
        )
        which, bias, cost, at, label = (arguments[number] for number in (1, 2, 3, 6, 9))
        bias, cost = (_everywhere(builder, _BYTES, builder.trunc(x, _BYTE)) for x in (bias, cost))
        row = ir.Constant(_WORD, LANES)
        sides = [
            _load(builder, _BYTES, before, move(at, row)) for move in (builder.add, builder.sub)
        ]
        moved = _operation(builder, "umax", _BYTES, *sides)
        moved = _operation(builder, "usub.sat", _BYTES, moved, cost)
        score = _operation(builder, "umax", _BYTES, moved, _load(builder, _BYTES, before, at))
        count = _count_of(builder, planes, which)
        score = _operation(builder, "uadd.sat", _BYTES, score, count)
        score = _operation(builder, "usub.sat", _BYTES, score, bias)
        _store(builder, _BYTES, after, at, score)
        none = ir.Constant(_WORD, 0)
        highest = _load(builder, _BYTES, best, none)
        better = builder.icmp_unsigned(">", score, highest)
        _store(builder, _BYTES, best, none, builder.select(better, score, highest))
        labels = _everywhere(builder, _SHORTS, builder.trunc(label, _SHORT))
        known = _load(builder, _SHORTS, place, none)
        _store(builder, _SHORTS, place, none, builder.select(better, labels, known))
        return context.get_dummy_value()

    word = types.int64
    arguments = (planes, word, word, word, before, after, word, best, place, word)
    return types.void(*arguments), generate


def _path_step(lanes):
    """Return what lengthens the best path by one letter in some lanes."""
    shorts, bits = ir.VectorType(_SHORT, lanes), ir.VectorType(ir.IntType(1), lanes)

    @intrinsic
    def step(typing, words, word_at, weight, cost, before, after, at):
        """Write the best score of paths to a letter at one shift: after[at : at + lanes].

        The letter adds its weight where the lane's bit of words[word_at] is set, and takes it away
        elsewhere. A path comes from the same shift, or for `cost` from the next on either side.
        """
        del typing

        def generate(context, builder, signature, arguments):
            words, before, after = (
                _data(context, builder, signature, arguments, number) for number in (0, 4, 5)
            )
            word_at, weight, cost, at = (arguments[number] for number in (1, 2, 3, 6))
            weight, cost = (builder.trunc(x, _SHORT) for x in (weight, cost))
            plus = _everywhere(builder, shorts, weight)
            minus = _everywhere(builder, shorts, builder.neg(weight))
            row = ir.Constant(_WORD, lanes)
            sides = [
                _load(builder, shorts, before, move(at, row)) for move in (builder.add, builder.sub)
            ]
            moved = _operation(builder, "smax", shorts, *sides)
            moved = _operation(
                builder, "ssub.sat", shorts, moved, _everywhere(builder, shorts, cost)
            )
            score = _operation(builder, "smax", shorts, moved, _load(builder, shorts, before, at))
            word = builder.load(builder.gep(words, [word_at]))
            if lanes < LANES:
                word = builder.trunc(word, ir.IntType(lanes))
            change = builder.select(builder.bitcast(word, bits), plus, minus)
            score = _operation(builder, "sadd.sat", shorts, score, change)
            _store(builder, shorts, after, at, score)
            return context.get_dummy_value()

        word = types.int64
        return types.void(words, word, word, word, before, after, word), generate

    return step


path_step_32, path_step_64 = _path_step(32), _path_step(64)
