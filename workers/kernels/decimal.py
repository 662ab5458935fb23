"""From decimal digits to the nearest double, in integer arithmetic: w * 10**q for w below 2**64.

Small cases are one exact multiplication or division; the others are Lemire's (Number parsing at a gigabyte
per second, 2021) with a table of 128-bit powers of five. What is rare (subnormals, overflow, a product that
does not settle the last bit) is left to the caller's slow way: `nearest_double` answers NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel, leaf

_EXPONENT_MIN, _EXPONENT_MAX = -342, 308
_LOW = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_UNSETTLED = np.uint64(0x1FF)  # bits below the 53 of a double, the rounding bit and one more
_HIDDEN = np.uint64(1 << 52)
_BIAS = 1023


def _power_of_five(exponent: int) -> int:
    """Return the leading 128 bits of 5**exponent: cut off for positive ones, rounded up for negative."""
    if exponent >= 0:
        power: int = 5**exponent
        shift = power.bit_length() - 128
        return power >> shift if shift >= 0 else power << -shift
    power = 5**-exponent
    bits = (power - 1).bit_length()
    found: int = (1 << (2 * bits + 128)) // power + 1
    return found >> (found.bit_length() - 128)


_POWERS = [_power_of_five(exponent) for exponent in range(_EXPONENT_MIN, _EXPONENT_MAX + 1)]
_POWER_HIGH = np.array([power >> 64 for power in _POWERS], np.uint64)
_POWER_LOW = np.array([power & 0xFFFFFFFFFFFFFFFF for power in _POWERS], np.uint64)
_TENS = 10.0 ** np.arange(23)
_TWOS = np.array([2.0 ** (power - _BIAS - 52) for power in range(2047)])


@leaf
def _product(a: Any, b: Any) -> Any:
    """Return the two words of a 64-bit product, the high one first."""
    a_high, a_low = a >> _HALF, a & _LOW
    b_high, b_low = b >> _HALF, b & _LOW
    low = a_low * b_low
    cross = a_high * b_low + (low >> _HALF)
    other = a_low * b_high + (cross & _LOW)
    return a_high * b_high + (cross >> _HALF) + (other >> _HALF), a * b


@leaf
def _leading_zeros(word: Any) -> Any:
    count = 0
    step = 32
    while step:
        if word >> np.uint64(64 - step) == 0:
            count += step
            word <<= np.uint64(step)
        step >>= 1
    return count


@kernel
def nearest_double(digits: Any, exponent: Any) -> Any:
    """Return the double nearest to ``digits * 10**exponent``; NaN where the slow way must decide.

    Parameters
    ----------
    digits : uint64
    exponent : int
    """
    if digits == 0:
        return 0.0
    if digits <= np.uint64(1 << 53) and -22 <= exponent <= 22:
        near = np.float64(digits)
        return near / _TENS[-exponent] if exponent < 0 else near * _TENS[exponent]
    if exponent < _EXPONENT_MIN or exponent > _EXPONENT_MAX:
        return np.nan
    zeros = _leading_zeros(digits)
    shifted = digits << np.uint64(zeros)
    at = exponent - _EXPONENT_MIN
    high, low = _product(shifted, _POWER_HIGH[at])
    if high & _UNSETTLED == _UNSETTLED:
        more, _ = _product(shifted, _POWER_LOW[at])
        low = low + more
        if more > low:
            high = high + _ONE
    if low == _ALL:
        return np.nan
    upper = np.int64(high >> np.uint64(63))
    cut = np.uint64(upper + 64 - 52 - 3)
    mantissa = high >> cut
    power = ((217706 * exponent) >> 16) + 63 + upper - zeros + _BIAS
    if power <= 0 or power >= 2046:
        return np.nan
    if low <= _ONE and -4 <= exponent <= 23 and mantissa & np.uint64(3) == _ONE and mantissa << cut == high:
        mantissa &= ~_ONE  # exactly half way: to even
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    return np.float64(mantissa) * _TWOS[power]
