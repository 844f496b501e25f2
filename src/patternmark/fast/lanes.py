"""Count and score 64 lanes at once with numba: bit-sliced counts, and vectors of small numbers.

A machine word has one bit for each of 64 lanes, and eight neighbouring words fill a vector. Counts
are bit-sliced: plane b has bit b of the count of every lane. Three words of one weight become one
of the same weight and one of twice the weight (a carry-save adder). So adding `CHUNK` words takes
about `CHUNK` additions for all lanes of a vector together. Scores of paths and stretches are
vectors with one small number for each lane.

The code uses LLVM's vectors directly: a compiler keeps the sums of plain loops in registers only if
it can prove that arrays do not overlap.
"""

# mypy: ignore-errors

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 64
WORDS_PER_VECTOR = 8
CHUNK = 32  # words that are added up together: a power of two
PLANES = 12  # bits of a count: 11 for up to 2,048 words, and one more
CHUNK_PLANES = 6  # bits of a count of up to CHUNK

_WORD, _BYTE, _SHORT = ir.IntType(64), ir.IntType(8), ir.IntType(16)
_EIGHT = ir.VectorType(_WORD, WORDS_PER_VECTOR)
_BYTES = ir.VectorType(_BYTE, LANES)
_SHORTS = ir.VectorType(_SHORT, LANES)
_BITS = ir.VectorType(ir.IntType(1), LANES)


def _all(value):
    return ir.Constant(_EIGHT, [value] * WORDS_PER_VECTOR)


def _data(context, builder, signature, arguments, number):
    return context.make_array(signature.args[number])(context, builder, arguments[number]).data


def _vector(builder, kind, data, index):
    return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())


def _load(builder, kind, data, index):
    found = builder.load(_vector(builder, kind, data, index))
    found.align = kind.element.width // 8  # a row may begin at any element
    return found


def _store(builder, kind, data, index, value):
    builder.store(value, _vector(builder, kind, data, index)).align = kind.element.width // 8


def _everywhere(builder, kind, value):
    """Return a vector with the same value in all lanes."""
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


def _carry_save(builder, a, b, c):
    """Return the sum of three bits in each lane: the lower bit and the carry."""
    differ = builder.xor(a, b)
    kept = builder.and_(builder.not_(differ), a)
    return builder.xor(differ, c), builder.or_(builder.and_(differ, c), kept)


def _add_words(builder, words, planes):
    """Add words (a power of two of them) to the first planes; return the carry.

    One half is finished before the other begins, so that few sums are open and fit the registers.
    """
    if len(words) == 1:
        return words[0]
    half = len(words) // 2
    low = _add_words(builder, words[:half], planes)
    high = _add_words(builder, words[half:], planes)
    weight = half.bit_length() - 1
    planes[weight], carry = _carry_save(builder, low, high, planes[weight])
    return carry


def _add_chunk(builder, words, state):
    """Add words to all planes of a state in memory."""
    planes = [builder.load(plane) for plane in state]
    carry = _add_words(builder, words, planes)
    for b in range(len(words).bit_length() - 1, len(planes)):
        before = planes[b]
        planes[b] = builder.xor(before, carry)
        carry = builder.and_(before, carry)
    for plane, into in zip(planes, state, strict=True):
        builder.store(plane, into)


@intrinsic
def add_up(typing, table, places, begin, end, column, planes):
    """Count the bits of the vectors table[p + column :][:8], for all p of places[begin:end].

    The number of places must be a multiple of CHUNK. The counts are written to `planes`, a flat
    array [columns / 8, PLANES, 8]; `column` is the first of eight.
    """
    del typing, begin, end, column

    def generate(context, builder, signature, arguments):
        begin, end, column = arguments[2:5]
        rows, listed, into = (
            _data(context, builder, signature, arguments, number) for number in (0, 1, 5)
        )
        rows = builder.gep(rows, [column])
        state = [cgutils.alloca_once_value(builder, _all(0)) for _ in range(PLANES)]
        step = ir.Constant(_WORD, CHUNK)
        with cgutils.for_range_slice(builder, begin, end, step, intp=_WORD) as (index, _):
            words = []
            for i in range(CHUNK):
                at = builder.load(builder.gep(listed, [builder.add(index, ir.Constant(_WORD, i))]))
                at = builder.zext(at, _WORD)
                words.append(_load(builder, _EIGHT, rows, at))
            _add_chunk(builder, words, state)
        for b, plane in enumerate(state):
            place = builder.add(
                builder.mul(column, ir.Constant(_WORD, PLANES)),
                ir.Constant(_WORD, b * WORDS_PER_VECTOR),
            )
            _store(builder, _EIGHT, into, place, builder.load(plane))
        return context.get_dummy_value()

    word = types.int64
    return types.void(table, places, word, word, word, planes), generate


@intrinsic
def reaching(typing, planes, column, limit):
    """Return which lanes have a count of at least `limit` in one of eight columns.

    The limit is subtracted from all counts bit by bit: counts that had to borrow are below it.
    """
    del typing, column, limit

    def generate(context, builder, signature, arguments):
        column, limit = arguments[1:]
        planes = _data(context, builder, signature, arguments, 0)
        first = builder.mul(column, ir.Constant(_WORD, PLANES))
        borrowed = _all(0)
        for b in range(PLANES):
            place = builder.add(first, ir.Constant(_WORD, b * WORDS_PER_VECTOR))
            plane = _load(builder, _EIGHT, planes, place)
            bit = builder.and_(builder.lshr(limit, ir.Constant(_WORD, b)), ir.Constant(_WORD, 1))
            mask = builder.neg(bit)
            wanted = _everywhere(builder, _EIGHT, mask)
            either, both = builder.or_(wanted, borrowed), builder.and_(wanted, borrowed)
            borrowed = builder.or_(builder.and_(builder.not_(plane), either), both)
        below = builder.extract_element(borrowed, ir.Constant(ir.IntType(32), 0))
        for i in range(1, WORDS_PER_VECTOR):
            one = builder.extract_element(borrowed, ir.Constant(ir.IntType(32), i))
            below = builder.and_(below, one)
        return builder.not_(below)

    return types.uint64(planes, types.int64, types.int64), generate


@intrinsic
def count_chunk(typing, table, places, at, start, planes):
    """Count the bits of the words table[place + start + 0..7] for CHUNK places from `at` on.

    The counts are written to `planes`: CHUNK_PLANES times eight words.
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
        state = [_all(0)] * (CHUNK_PLANES - 1)
        carry = _add_words(builder, words, state)
        for b, plane in enumerate([*state, carry]):
            _store(builder, _EIGHT, planes, ir.Constant(_WORD, b * WORDS_PER_VECTOR), plane)
        return context.get_dummy_value()

    word = types.int64
    return types.void(table, places, word, word, planes), generate


def _count_of(builder, planes, which):
    """Return the count of each lane as a byte, from its planes."""
    total = ir.Constant(_BYTES, [0] * LANES)
    for b in range(CHUNK_PLANES):
        index = builder.add(which, ir.Constant(_WORD, b * WORDS_PER_VECTOR))
        bits = builder.bitcast(builder.load(builder.gep(planes, [index])), _BITS)
        more = builder.add(total, ir.Constant(_BYTES, [1 << b] * LANES))
        total = builder.select(bits, more, total)
    return total


@intrinsic
def extend_stretch(typing, planes, which, bias, cost, before, after, at, best, place, label):
    """Extend or begin a stretch in 64 lanes by one segment at one shift.

    The score of a stretch grows by the count of the segment (word `which` of `planes`) minus
    `bias`. A stretch continues from the same shift, or at `cost` from the next shift on either
    side, and its score is never below 0. `before` and `after` are rows of 64 bytes; the row of this
    shift begins at `at`. If a score is the `best` of its lane so far, its `place` becomes `label`.
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
    """Return a function that extends the best path by one letter in `lanes` lanes."""
    shorts, bits = ir.VectorType(_SHORT, lanes), ir.VectorType(ir.IntType(1), lanes)

    @intrinsic
    def step(typing, words, word_at, weight, cost, before, after, at):
        """Write the best score of paths to a letter at one shift: after[at : at + lanes].

        The letter adds its weight if the lane's bit of words[word_at] is set, and subtracts it
        otherwise. A path continues from the same shift, or at `cost` from the next on either side.
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
