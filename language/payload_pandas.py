"""Columns of pandas: what it calls missing is missing, numbers with gaps stay exact.

pandas is never imported here: whoever has a Series has imported it. `numpy.asarray` is no way to read its
columns: it makes doubles of integers with gaps, and NaN of the gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import CallerError, EventError

_MISSING = ("NAType", "NaTType")


def is_pandas(given: Any) -> bool:
    """Say whether `given` is something of pandas."""
    return type(given).__module__.partition(".")[0] == "pandas"


def is_missing(value: Any) -> bool:
    """Say whether `value` is what pandas puts where a value is missing: NA or NaT."""
    return type(value).__name__ in _MISSING and is_pandas(value)


def columns_of_pandas(given: Any) -> Mapping[str, Any] | None:
    """Return the columns of a DataFrame by name, without its index; None for what is not of pandas.

    Raises
    ------
    EventError
        Something else of pandas.
    CallerError
        Two columns have one name, or a name is no text.
    """
    if not is_pandas(given):
        return None
    if getattr(given, "ndim", 0) != 2:
        raise EventError(
            "this is no batch of events",
            seen=type(given).__name__,
            limit="a DataFrame, or a dict of columns",
            remedy="Give a dict with it, from the attribute's name.",
        )
    names = list(given.columns)
    if not all(isinstance(name, str) for name in names):
        raise CallerError(
            "a column of the DataFrame has a name that is not text",
            seen=next(repr(name) for name in names if not isinstance(name, str)),
            remedy="Name the columns as the attributes: `df.columns = [...]`.",
        )
    if len(set(names)) < len(names):
        raise CallerError("two columns of the DataFrame have one name", seen=names)
    return dict(given.items())


def values_of_pandas(given: Any) -> tuple[Any, npt.NDArray[np.bool_] | None]:
    """Return the values of a column as a NumPy array, an Arrow array or a list, and where there are any.

    A NaN in a column of one of NumPy's types of floats is a value, as it is in NumPy's own arrays; in any
    other column it is what pandas says of it.

    Parameters
    ----------
    given : pandas.Series, pandas.Index or an array of pandas
    """
    kind = given.dtype
    if isinstance(kind, np.dtype) and kind.kind != "O":
        return given.to_numpy(), None
    if hasattr(kind, "pyarrow_dtype"):
        return getattr(given, "array", given).__arrow_array__(), None
    missing = np.asarray(given.isna(), np.bool_)
    valid = ~missing if missing.any() else None
    if hasattr(kind, "categories"):
        return _of_categories(getattr(given, "array", given)), valid
    if hasattr(kind, "tz"):
        return given.to_numpy("datetime64[us]"), valid
    if isinstance(plain := getattr(kind, "numpy_dtype", None), np.dtype):
        return given.to_numpy(plain, na_value=plain.type(0)), valid
    return given.to_numpy(np.dtype(object)).tolist(), valid


def _of_categories(given: Any) -> Any:
    """Return the category of each value; of a missing one, any."""
    values, _ = values_of_pandas(given.categories)
    if len(values) == 0:
        return np.zeros(len(given), np.int64)
    at = np.maximum(given.codes, 0)
    return [values[one] for one in at.tolist()] if isinstance(values, list) else values.take(at)
