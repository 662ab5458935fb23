"""Bytes of texts, eight at a time: words, hashes, equality, order, and whether they are UTF-8.

A *word* is the first eight bytes of a text as a little-endian number, zero-padded; with the size it decides
equality of short texts. `load_word` is one load of machine code; where kernels are not compiled, or check
their bounds, it is a loop. Hashes are of this process alone: nothing stored or answered depends on them.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir

from pubsub_cluster.workers.kernels._jit import leaf, routine

WORD_BYTES = 8
# Odd numbers without structure, for hashing by multiplication.
MIX_A = np.uint64(0x9E3779B97F4A7C15)
MIX_B = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
_BYTE = np.uint64(8)
_LOW_BYTES = np.uint64(0x00FF00FF00FF00FF)
_LOW_PAIRS = np.uint64(0x0000FFFF0000FFFF)

_intrinsic: Any = numba.extending.intrinsic

INVALID, ASCII, MULTIBYTE = -1, 0, 1


@_intrinsic
def _load(typing_context: Any, data: Any, at: Any) -> Any:
    """Return ``data[at:at + 8]`` of an uint8 array as an uint64; the caller has checked the bounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        at = builder.gep(array.data, [arguments[1]])
        address = builder.bitcast(at, ir.PointerType(ir.IntType(64)))
        word = builder.load(address, typ=ir.IntType(64))
        word.align = 1
        return word

    return numba.types.uint64(data, numba.types.int64), generate


def _gather(data: Any, at: Any) -> Any:
    word = np.uint64(0)
    for step in range(WORD_BYTES):
        word |= np.uint64(data[at + step]) << (np.uint64(step) * np.uint64(8))
    return word


@_intrinsic
def _trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Return the number of zero bits below the lowest one of an uint64 that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return numba.types.int64(numba.types.uint64), generate


@_intrinsic
def _double(typing_context: Any, word: Any) -> Any:
    """Return the double that has these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return numba.types.float64(numba.types.uint64), generate


def _double_of(word: Any) -> Any:
    return np.uint64(word).view(np.float64)


def _integer_of(word: Any) -> Any:
    return np.uint64(word).view(np.int64)


def _count_zeros(word: Any) -> Any:
    return (int(word) & -int(word)).bit_length() - 1


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    trailing_zeros = _count_zeros
    double_of = _double_of
    integer_of = _integer_of
else:

    @leaf
    def integer_of(word: Any) -> Any:
        """Return the integer that has the bits of an uint64."""
        return np.int64(word)

    @leaf
    def double_of(word: Any) -> Any:
        """Return the double that has the bits of an uint64."""
        return _double(np.uint64(word))

    @leaf
    def trailing_zeros(word: Any) -> Any:
        """Return the number of zero bits below the lowest one of an uint64 that is not 0."""
        return _trailing_zeros(np.uint64(word))


if numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK:  # type: ignore[attr-defined]
    load_word = leaf(_gather)
else:

    @leaf
    def load_word(data: Any, at: Any) -> Any:
        """Return eight bytes from `at` on as a little-endian number; all eight must exist."""
        return _load(data, np.int64(at))


@leaf
def word_of(data: Any, start: Any, stop: Any) -> Any:
    """Return the word of ``data[start:stop]``."""
    size = stop - start
    if start + WORD_BYTES <= data.shape[0]:
        # Shifted in two steps, as by 64 bits is not defined: sizes differ, a branch would often go wrong.
        half = np.uint64(4) * np.uint64(min(size, WORD_BYTES))
        return load_word(data, start) & (((np.uint64(1) << half) << half) - np.uint64(1))
    word = np.uint64(0)
    for step in range(min(size, WORD_BYTES)):
        word |= np.uint64(data[start + step]) << (np.uint64(step) * _BYTE)
    return word


@leaf
def swapped(word: Any) -> Any:
    """Return the word with its bytes in the other order: words so turned order as texts do."""
    word = ((word >> _BYTE) & _LOW_BYTES) | ((word & _LOW_BYTES) << _BYTE)
    word = ((word >> np.uint64(16)) & _LOW_PAIRS) | ((word & _LOW_PAIRS) << np.uint64(16))
    return (word >> _SHIFT) | (word << _SHIFT)


@leaf
def hash_of(data: Any, start: Any, stop: Any, word: Any, seed: Any) -> Any:
    """Return the hash of ``data[start:stop]``, whose word is `word`."""
    size = stop - start
    found = (word ^ seed ^ np.uint64(size)) * MIX_A
    found ^= found >> _SHIFT
    at = start + WORD_BYTES
    while at + WORD_BYTES <= stop:
        found = (found ^ load_word(data, at)) * MIX_B
        found ^= found >> _SHIFT
        at += WORD_BYTES
    if at < stop:  # the last eight bytes, some of them once more
        found = (found ^ load_word(data, stop - WORD_BYTES)) * MIX_B
        found ^= found >> _SHIFT
    return found * MIX_A


@leaf
def same_tails(a: Any, a_start: Any, b: Any, b_start: Any, size: Any) -> Any:
    """Say whether two texts of one size and one word are equal."""
    if size <= WORD_BYTES:
        return True
    at = WORD_BYTES
    while at + WORD_BYTES <= size:
        if load_word(a, a_start + at) != load_word(b, b_start + at):
            return False
        at += WORD_BYTES
    last = size - WORD_BYTES
    return load_word(a, a_start + last) == load_word(b, b_start + last)


@routine
def utf8_class(data: Any, start: Any, stop: Any) -> Any:
    """Return ASCII, MULTIBYTE or INVALID for ``data[start:stop]`` (no surrogates, shortest forms only)."""
    at = start
    found = ASCII
    while at < stop:
        lead = data[at]
        if lead < 0x80:
            at += 1
            continue
        found = MULTIBYTE
        first_lo = 0x80
        first_hi = 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                first_lo = 0xA0
            elif lead == 0xED:
                first_hi = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                first_lo = 0x90
            elif lead == 0xF4:
                first_hi = 0x8F
        else:
            return INVALID
        if at + more >= stop:
            return INVALID
        if data[at + 1] < first_lo or data[at + 1] > first_hi:
            return INVALID
        for step in range(2, more + 1):
            if data[at + step] < 0x80 or data[at + step] > 0xBF:
                return INVALID
        at += more + 1
    return found
