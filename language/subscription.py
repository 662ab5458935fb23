"""What a subscription says: its expression as bytes of JSON, its validity window, its metadata.

Whoever takes subscriptions in, the coordinator or a job that builds a catalogue, judges them by these.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import msgspec
import orjson

from pubsub_cluster.language.compile import Compiler
from pubsub_cluster.language.errors import ExpressionError, WindowError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits, check_limit
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.language.vocabulary import Conjunction, Conjunctions

DEFAULT_OWNER = "default"
Form: TypeAlias = NormalForm | Conjunction


class ExpressionReader:
    """Reads expressions under one schema and its limits; not for several threads.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    """

    def __init__(self, schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS) -> None:
        self._schema = schema
        self._limits = limits
        self._compiler = Compiler(schema, limits)
        self._conjunctions = Conjunctions(schema, limits)

    def conjunction(self, expression: bytes) -> Conjunction | None:
        """Return the form of an expression of the commonest kind; None: find out the long way."""
        return self._conjunctions.read(expression)

    def form_of(self, expression: bytes) -> Form:
        """Return the form of an expression as it is kept: text or JSON, as bytes of JSON.

        Raises
        ------
        CallerError
            It is not well formed, or not allowed by schema or limits.
        """
        return self._conjunctions.read(expression) or self.normalised(decoded(expression))

    def normalised(self, given: Any) -> NormalForm:
        """Return the normal form of an expression as it was given: text or JSON."""
        if isinstance(given, str):
            return normalise(parse_text(given, self._schema, self._limits), self._schema, self._limits)
        return self._compiler.normal_form(given)


def decoded(expression: bytes) -> Any:
    """Return an expression that came as bytes; raises `ExpressionError` when they are no JSON."""
    try:
        return msgspec.json.decode(expression)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ExpressionError("the expression is not JSON", seen=str(error)) from None


def window_given(valid_from: Any, valid_until: Any) -> tuple[int | None, int | None]:
    """Return a validity window as it was given; raises `WindowError`."""
    for name, value in (("valid_from", valid_from), ("valid_until", valid_until)):
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not INT64_MIN <= value <= INT64_MAX:
            raise WindowError(f"{name} must be a 64-bit integer of microseconds since the epoch", seen=value)
    if valid_from is not None and valid_until is not None and valid_until <= valid_from:
        raise WindowError(
            "the end of a validity window must be after its start",
            seen=[valid_from, valid_until],
            remedy="Swap them.",
        )
    return valid_from, valid_until


def encode_metadata(value: Any, limits: Limits) -> bytes | None:
    """Return a subscription's metadata as bytes of JSON; None for null.

    Raises
    ------
    ExpressionError
        Not an object, a number in it is not finite, or an answer could not carry it: an integer beyond 64
        bits, or nested too deeply.
    LimitError
        Larger than `limits.metadata_size_bytes_max`.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ExpressionError("metadata is a JSON object", seen=type(value).__name__)
    try:
        data = orjson.dumps(value)
    except TypeError as error:
        raise ExpressionError(
            "metadata cannot be told again as JSON",
            seen=str(error),
            limit="integers of 64 bits, some 250 levels of lists and objects",
            remedy="Write large numbers as texts.",
        ) from None
    if b"null" in data:
        check_finite(value)
    check_limit(
        "metadata_size_bytes_max",
        len(data),
        limits.metadata_size_bytes_max,
        "UTF-8 bytes of a subscription's metadata",
        "Keep long texts elsewhere, under the subscription's id.",
    )
    return data


def check_finite(metadata: Any) -> None:
    """Raise `ExpressionError` for a NaN or an infinity in metadata: JSON encoders make null of them."""
    pending = [metadata]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise ExpressionError(
                "metadata has a number that JSON does not have",
                seen=repr(value),
                limit="finite numbers",
                remedy="Leave it out, or write it as a text.",
            )
