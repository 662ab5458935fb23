"""Decimal texts in a range, as a regular expression: how ``lt lte gt gte`` see a number that is a text.

A decimal text is an optional minus, digits, and optionally a point and digits; leading zeros do not count.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from pubsub_cluster.language.expression import Operator

DECIMAL: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_ZERO: Final = r"0+(?:\.0+)?"
_ANY: Final = r"[0-9]+(?:\.[0-9]+)?"


def decimal_pattern(operator: Operator, bound: int | float) -> str:
    """Return an RE2 pattern for the whole texts whose number is below (above, ...) `bound`.

    Parameters
    ----------
    operator : Operator
        LT, LE, GT or GE.
    bound : int or float
        Finite; a float is taken by its shortest text: 0.1 is 0.1.
    """
    exact = Decimal(str(bound))
    inclusive = operator in (Operator.LE, Operator.GE)
    upward = operator in (Operator.GT, Operator.GE)
    # Read the number line so that `outward` texts have the bound's sign or are of the other sign altogether.
    outward, inward = ("", "-") if upward else ("-", "")
    if exact == 0:
        choices = [outward + _above(exact, False), *([f"-?{_ZERO}"] if inclusive else [])]
    elif (exact > 0) is upward:
        choices = [outward + _above(abs(exact), inclusive)]
    else:
        choices = [outward + _ANY, f"-?{_ZERO}", inward + _below(abs(exact), inclusive)]
    return f"^(?:{'|'.join(choices)})$"


def _digits(bound: Decimal) -> tuple[str, str]:
    """Return the digits before the point without leading zeros, and behind it without trailing ones."""
    whole, _, part = f"{bound:f}".partition(".")
    return whole.lstrip("0"), part.rstrip("0")


def _above(bound: Decimal, inclusive: bool) -> str:
    """Return a pattern for unsigned texts above a bound that is not negative."""
    whole, part = _digits(bound)
    same = f"0*{whole}" if whole else "0+"
    choices = [f"0*[1-9][0-9]{{{len(whole)},}}(?:\\.[0-9]+)?"]
    for k, digit in enumerate(whole):
        if digit < "9":
            rest = len(whole) - k - 1
            choices.append(f"0*{whole[:k]}[{int(digit) + 1}-9][0-9]{{{rest}}}(?:\\.[0-9]+)?")
    for k, digit in enumerate(part):
        if digit < "9":
            choices.append(f"{same}\\.{part[:k]}[{int(digit) + 1}-9][0-9]*")
    choices.append(f"{same}\\.{part}0*[1-9][0-9]*")
    if inclusive:
        choices.append(_equal(same, part))
    return f"(?:{'|'.join(choices)})"


def _below(bound: Decimal, inclusive: bool) -> str:
    """Return a pattern for unsigned texts below a bound that is positive."""
    whole, part = _digits(bound)
    same = f"0*{whole}" if whole else "0+"
    choices = [f"0*[0-9]{{1,{len(whole) - 1}}}(?:\\.[0-9]+)?"] if len(whole) > 1 else []
    for k, digit in enumerate(whole):
        if digit > "0":
            rest = len(whole) - k - 1
            choices.append(f"0*{whole[:k]}[0-{int(digit) - 1}][0-9]{{{rest}}}(?:\\.[0-9]+)?")
    for k, digit in enumerate(part):
        choices.append(f"{same}\\.{part[:k]}" if k else same)  # a shorter one
        if digit > "0":
            choices.append(f"{same}\\.{part[:k]}[0-{int(digit) - 1}][0-9]*")
    if inclusive:
        choices.append(_equal(same, part))
    return f"(?:{'|'.join(choices)})"


def _equal(same: str, part: str) -> str:
    return f"{same}\\.{part}0*" if part else f"{same}(?:\\.0+)?"
