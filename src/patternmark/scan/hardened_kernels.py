"""The loops of the first stage for hardened keys, compiled by numba.

A machine word holds one bit for each of 64 lanes, and a lane is a nonce of a key. What a residue
says to them is such a word, and the words of all starts stand side by side: eight fill a vector.
Counts are bit-sliced: plane b has bit b of the count of every lane and start. Three words of one
weight become one of the same weight and one of twice it (a carry-save adder), so that `CHUNK`
residues cost about as many additions as there are residues, for 64 nonces and eight starts each.

The additions are written in terms of LLVM's vectors: loops over arrays would have to be shown not
to overlap before a compiler keeps their sums in registers.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from patternmark.scan.lanes import LANES, ones

ABREAST = 8  # starts that are counted at once
CHUNK = 32  # residues that are added up together: a power of two
PLANES = 12  # bits of a count: up to 2,048 residues, and one more
AMINO_ACIDS = 20
SEGMENT, KEY = 0, 1  # the columns of `hits`

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, ABREAST)
_EVERY = uint64(0xFFFFFFFFFFFFFFFF)


def _all(value):
    return ir.Constant(_VECTOR, [value] * ABREAST)


def _pointer(context, builder, kind, array, index):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _load(builder, pointer):
    found = builder.load(pointer)
    found.align = 8  # rows begin at any word
    return found


def _carry_save(builder, a, b, c):
    """Return the sum of three bits in each lane: what stays, and what is carried."""
    differ = builder.xor(a, b)
    kept = builder.and_(builder.not_(differ), a)
    return builder.xor(differ, c), builder.or_(builder.and_(differ, c), kept)


def _absorb(builder, words, state):
    """Add words, of which there are a power of two, to the first planes; return what is carried.

    It goes down one half before the other: few sums wait at a time, so that registers hold them.
    """
    if len(words) == 1:
        return words[0]
    half = len(words) // 2
    low = _absorb(builder, words[:half], state)
    high = _absorb(builder, words[half:], state)
    plane = state[half.bit_length() - 1]
    total, carry = _carry_save(builder, low, high, builder.load(plane))
    builder.store(total, plane)
    return carry


def _add_chunk(builder, words, state):
    """Add words to all planes of a state."""
    carry = _absorb(builder, words, state)
    for plane in state[len(words).bit_length() - 1 :]:
        before = builder.load(plane)
        builder.store(builder.xor(before, carry), plane)
        carry = builder.and_(before, carry)


@intrinsic
def _add_up(typing, table, places, begin, end, start, planes):
    """Count, for eight starts, the bits of the words at places[begin:end] into planes.

    There are whole chunks of places. `planes` are [starts / 8, PLANES, 8], one after the other, and
    `start` is the first of eight.
    """
    del typing, begin, end, start

    def generate(context, builder, signature, arguments):
        table, places, begin, end, start, planes = arguments
        rows = context.make_array(signature.args[0])(context, builder, table).data
        listed = context.make_array(signature.args[1])(context, builder, places).data
        rows = builder.gep(rows, [start])
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
                builder.mul(start, ir.Constant(_WORD, PLANES)), ir.Constant(_WORD, b * ABREAST)
            )
            into = _pointer(context, builder, signature.args[5], planes, place)
            builder.store(builder.load(plane), into).align = 8
        return context.get_dummy_value()

    word = types.int64
    return types.void(table, places, word, word, word, planes), generate


@intrinsic
def _reaching(typing, planes, start, limit):
    """Return which lanes have a count of at least `limit` at one of eight starts.

    The limit is taken away from all counts bit by bit: those that had to borrow are below.
    """
    del typing, start, limit

    def generate(context, builder, signature, arguments):
        planes, start, limit = arguments
        first = builder.mul(start, ir.Constant(_WORD, PLANES))
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


@njit(cache=True, nogil=True, error_model="numpy")
def lay_out(letters, begins, rows, width, starts, places, edges, scored):
    """Write down where in a table the words of each scored residue begin, segment by segment.

    `rows` says which row of a table a letter has, [stride, 20]; the last row is empty, and fills up
    the last chunk of a segment. What is written is the same for all keys.
    """
    stride = rows.shape[0]
    nothing = (rows.max() + 1) * width
    at = 0
    for s in range(len(begins) - 1):
        edges[s] = at
        past, turn = 0, 0  # the position is stride * turn + past
        for i in range(begins[s], begins[s + 1]):
            letter = letters[i]
            if letter < AMINO_ACIDS:
                places[at] = rows[past, letter] * width + turn
                at += 1
            past += 1
            if past == stride:
                past = 0
                turn = turn + 1 if turn + 1 < starts else 0
        scored[s] = at - edges[s]
        while (at - edges[s]) % CHUNK != 0:
            places[at] = nothing
            at += 1
    edges[len(begins) - 1] = at


@njit(cache=True, nogil=True, error_model="numpy")
def passing_keys(
    tables, places, edges, scored, first, nonces, keys, limits, passing, planes, tally, hits
):
    """Judge segments from `first` on by some keys; return how many pairs passed, and the next.

    The keys share one word, or one key has several: `tables` are [words, rows * width]. `limits`
    are the counts of each level of the tally, [n + 1, levels], of which `passing` decides. `planes`
    is memory to count in: [words, starts / 8, PLANES, 8].
    """
    words, groups = planes.shape[:2]
    flat = planes.reshape(words, -1)
    found = 0
    for s in range(first, len(scored)):
        if found + keys > len(hits):
            return found, s
        for w in range(words):
            for g in range(groups):
                _add_up(tables[w], places, edges[s], edges[s + 1], g * ABREAST, flat[w])
        for level in range(limits.shape[1]):
            limit = limits[scored[s], level]
            if limit > scored[s]:
                break
            reached = uint64(0)
            for w in range(words):
                for g in range(groups):
                    reached |= _reaching(flat[w], g * ABREAST, limit)
            if reached == 0:
                break
            of_keys = _by_key(reached, nonces, keys)
            tally[level] += np.int64(ones(of_keys))
            if level == passing:
                for k in range(keys):
                    if (of_keys >> uint64(k)) & uint64(1):
                        hits[found, SEGMENT], hits[found, KEY] = s, k
                        found += 1
    return found, len(scored)


@njit(cache=True, nogil=True, error_model="numpy")
def _by_key(reached, nonces, keys):
    """Return one bit for each key: whether any of its lanes is among those that are reached."""
    if nonces == 1:
        return reached
    if keys == 1:
        return uint64(reached != 0)
    own = _EVERY >> uint64(LANES - nonces)
    found = uint64(0)
    for k in range(keys):
        found |= uint64(((reached >> uint64(k * nonces)) & own) != 0) << uint64(k)
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def count(tables, places, edges, planes, counts):
    """Write down the count of every lane and start: [segments, words * 64, starts]."""
    words, groups = planes.shape[:2]
    flat = planes.reshape(words, -1)
    for s in range(len(counts)):
        for w in range(words):
            for g in range(groups):
                _add_up(tables[w], places, edges[s], edges[s + 1], g * ABREAST, flat[w])
            for lane in range(LANES):
                for start in range(counts.shape[2]):
                    total = 0
                    for b in range(PLANES):
                        word = planes[w, start // ABREAST, b, start % ABREAST]
                        total |= np.int64((word >> uint64(lane)) & uint64(1)) << b
                    counts[s, w * LANES + lane, start] = total
