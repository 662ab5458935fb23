"""Canonical values: exact comparison of numbers, folding of text, checks of names.

Numbers of both kinds, 64-bit integers and IEEE doubles, are compared by their *number key*, a pair
(whole int64, part float64) in lexicographic order, so that 1 = 1.0 and 2**53 + 1 is not 2.0**53:

- -2**63 <= x < 2**63: ``whole = trunc(x)``, ``part = x - whole``; both are exact.
- x >= 2**63: ``(INT64_MAX, x)``; x < -2**63: ``(INT64_MIN, x)``; infinities are ordinary members of these.

Equal numbers have equal keys bit by bit (-0.0 becomes 0.0). NaN has no key; it is refused before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import CallerError, ExpressionError, LimitError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits

_TWO_63 = 2.0**63


def number_key(number: int | float) -> tuple[int, float]:
    """Return the number key of a 64-bit integer or a double that is not NaN (not a bool).

    Parameters
    ----------
    number : int or float

    Returns
    -------
    tuple of (int, float)
        ``(whole, part)``; keys order and equal as the numbers do, exactly.
    """
    if isinstance(number, int):
        return number, 0.0
    if -_TWO_63 <= number < _TWO_63:
        whole = math.trunc(number)
        return whole, number - whole + 0.0  # "+ 0.0" turns -0.0 into 0.0
    return (INT64_MAX if number > 0 else INT64_MIN), number


def number_of_key(whole: int, part: float) -> int | float:
    """Return the number that has this key; an integral one as int, whatever it was before."""
    if part == 0.0:
        return whole
    if abs(part) >= 1.0:
        return part
    return whole + part


def number_keys_int64(
    numbers: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return `number_key` of every integer: whole int64[k] (the argument itself) and part float64[k]."""
    return numbers, np.zeros(numbers.shape[0], dtype=np.float64)


def number_keys_float64(
    numbers: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return `number_key` of every double.

    Parameters
    ----------
    numbers : float64[k]
        None is NaN (the key of a NaN is meaningless).

    Returns
    -------
    whole : int64[k]
    part : float64[k]
    """
    inside = (numbers >= -_TWO_63) & (numbers < _TWO_63)
    if inside.all():
        floor = np.trunc(numbers)
        return floor.astype(np.int64), numbers - floor + 0.0
    near = np.where(inside, numbers, 0.0)
    floor = np.trunc(near)
    far_whole = np.where(numbers > 0, np.int64(INT64_MAX), np.int64(INT64_MIN))
    whole = np.where(inside, floor.astype(np.int64), far_whole)
    return whole, np.where(inside, near - floor + 0.0, numbers)


class _FoldTable(dict[int, str]):
    """Folding of single characters, filled on demand; used through `str.translate`."""

    def __missing__(self, code_point: int) -> str:
        char = chr(code_point)
        for folded in (char.casefold(), char.lower(), char):
            if len(folded) == 1:
                self[code_point] = folded
                return folded
        raise AssertionError("unreachable: a character is one character")


_FOLD_TABLE = _FoldTable()


def fold(text: str) -> str:
    """Return `text` folded for ``ignore_case``, character by character, of the same length.

    A character becomes its case folding if that is one character, else its lower case if that is one,
    else it stays.
    """
    folded = text.casefold()
    # Case folding never shrinks a character to nothing, so equal lengths mean one for one.
    return folded if len(folded) == len(text) else text.translate(_FOLD_TABLE)


def encode_texts(texts: Sequence[str]) -> tuple[npt.NDArray[np.int64], bytes]:
    """Return texts as one UTF-8 buffer and the offsets of its parts.

    Returns
    -------
    offset_bytes : int64[k + 1]
        Text i is ``data[offset_bytes[i]:offset_bytes[i + 1]]``.
    data : bytes

    Raises
    ------
    UnicodeEncodeError
        A text has a lone surrogate.
    """
    data = "".join(texts).encode()
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    sizes: Iterable[int] = map(len, texts)
    np.cumsum(np.fromiter(sizes, dtype=np.int64, count=len(texts)), out=offsets[1:])
    if int(offsets[-1]) != len(data):  # not ASCII: characters are not bytes
        sizes = [len(text.encode()) for text in texts]
        np.cumsum(np.array(sizes, dtype=np.int64), out=offsets[1:])
    return offsets, data


def utf8_size_bytes(text: str) -> int:
    """Return the number of UTF-8 bytes of `text`; -1 when it holds a lone surrogate."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return -1


def check_name(
    name: object,
    *,
    what: str = "attribute name",
    limits: Limits = DEFAULT_LIMITS,
    error: type[CallerError] = ExpressionError,
) -> str:
    """Return `name` if it can name an attribute, an owner or a subscription.

    Names are opaque: any non-empty Unicode text within the limit.

    Raises
    ------
    error
        Not text, empty, or with a lone surrogate.
    LimitError
        Longer than `limits.name_size_bytes_max`.
    """
    if not isinstance(name, str):
        raise error(f"the {what} is not text", seen=repr(name), limit="a non-empty string")
    if not name:
        raise error(f"the {what} is empty", limit="a non-empty string", remedy="Give it a name.")
    size_bytes = utf8_size_bytes(name)
    if size_bytes < 0:
        raise error(
            f"the {what} is not valid Unicode",
            seen=name,
            limit="no lone surrogates",
            remedy="Send UTF-8.",
        )
    if size_bytes > limits.name_size_bytes_max:
        raise LimitError(
            f"the {what} is too long, in UTF-8 bytes",
            seen=size_bytes,
            limit=limits.name_size_bytes_max,
            remedy="Use a shorter name.",
            limit_name="name_size_bytes_max",
        )
    return name
