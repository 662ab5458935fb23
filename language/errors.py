"""Every error that a user of the cluster can meet, in one short tree.

An error says the condition, the value seen, the limit and the remedy, as fields and as text. It
crosses processes as a plain dictionary (`to_dict`, `error_from_dict`) and survives pickling.
`caller_fault` tells a request that was wrong from a cluster that could not serve a right one.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

SHOWN_DEPTH_MAX = 6
SHOWN_ITEMS_MAX = 64
SHOWN_TEXT_MAX = 1_024


class PubSubError(Exception):
    """Root of all errors of this package.

    Parameters
    ----------
    condition : str
        What is wrong, in one sentence without a full stop.
    seen, limit : object, optional
        The value seen and the value allowed; anything JSON can carry, else it is shown by `repr`.
    remedy : str, optional
        What the reader can do next.
    **fields : object
        Further named facts (``event_index``, ``position``, ...), kept in `fields`.
    """

    code: ClassVar[str] = "error"
    caller_fault: ClassVar[bool] = False

    def __init__(
        self, condition: str, *, seen: Any = None, limit: Any = None, remedy: str | None = None, **fields: Any
    ) -> None:
        self.condition = condition
        self.seen = seen
        self.limit = limit
        self.remedy = remedy
        self.fields = fields
        super().__init__(condition)

    def __str__(self) -> str:
        parts = [self.condition]
        if self.seen is not None:
            parts.append(f"seen {_short(shown(self.seen))}")
        if self.limit is not None:
            parts.append(f"allowed {_short(allowed(self.limit))}")
        text = "; ".join(parts)
        return f"{text}. {self.remedy}" if self.remedy else text

    def __reduce__(self) -> Any:
        return (error_from_dict, (self.to_dict(),))

    def to_dict(self) -> dict[str, Any]:
        """Return the error as a dictionary that JSON can carry."""
        body: dict[str, Any] = {"code": self.code, "condition": self.condition}
        if self.seen is not None:
            body["seen"] = _plain(self.seen)
        if self.limit is not None:
            body["limit"] = _plain(self.limit)
        if self.remedy is not None:
            body["remedy"] = self.remedy
        body.update((name, _plain(value)) for name, value in self.fields.items())
        return body


class CallerError(PubSubError):
    """The request was wrong; sending it again unchanged gives the same answer."""

    code = "caller_error"
    caller_fault = True


class ExpressionError(CallerError):
    """A subscription's expression is not well formed."""

    code = "bad_expression"


class TextSyntaxError(ExpressionError):
    """The text form of an expression does not parse.

    `fields` has ``position`` (0-based, characters) and ``picture``: the line, and below it a caret.
    """

    code = "bad_text"

    def __str__(self) -> str:
        lines = str(self.fields.get("picture", "")).splitlines()
        return "\n  ".join([super().__str__(), *lines])


class DomainError(CallerError):
    """A constant or an event value is outside its attribute's declared domain."""

    code = "bad_domain"


class SchemaConflictError(CallerError):
    """An extension of the schema that conflicts with what is declared already."""

    code = "schema_conflict"


class EventError(CallerError):
    """One event of a batch is refused; `fields` has ``event_index``; the rest of the batch is matched."""

    code = "bad_event"


class LimitError(CallerError):
    """A limit of `pubsub_cluster.language.limits` is reached; `fields` has ``limit_name``."""

    code = "limit"


class ProtocolError(CallerError):
    """A message is not of our protocol, or one of its buffers lies about itself."""

    code = "bad_message"


class DuplicateIdError(CallerError):
    """A subscription with this id exists."""

    code = "duplicate_id"


class UnknownIdError(CallerError):
    """No live subscription has this id."""

    code = "unknown_id"


class WindowError(CallerError):
    """A validity window whose end is not after its start."""

    code = "bad_window"


class ClusterError(PubSubError):
    """The cluster could not serve a request that was right."""

    code = "cluster_error"


class BusyError(ClusterError):
    """No room for the batch now; `fields` has ``retry_after_s``."""

    code = "busy"


class PoisonBatchError(ClusterError):
    """The batch killed its worker twice and is refused; it is kept for diagnosis."""

    code = "poison_batch"


class StoreError(ClusterError):
    """The durable store refused a change (disk full, file damaged); nothing was acknowledged."""

    code = "store_failed"


class ReplyTimeoutError(ClusterError):
    """No answer came within the client's time limit; the request may or may not have been carried out."""

    code = "no_reply"


class StartError(ClusterError):
    """The cluster cannot start here; said before anything is started."""

    code = "cannot_start"


class SegmentError(ClusterError):
    """A shared-memory segment is missing, foreign, too small or of another version."""

    code = "bad_segment"


def error_from_dict(body: dict[str, Any]) -> PubSubError:
    """Rebuild an error from `PubSubError.to_dict`; an unknown code gives a `ClusterError`."""
    rest = {k: v for k, v in body.items() if k not in ("code", "condition", "seen", "limit", "remedy")}
    kind = _by_code().get(str(body.get("code")), ClusterError)
    return kind(
        str(body.get("condition", "unknown error")),
        seen=body.get("seen"),
        limit=body.get("limit"),
        remedy=body.get("remedy"),
        **rest,
    )


def _by_code() -> dict[str, type[PubSubError]]:
    found: dict[str, type[PubSubError]] = {}
    queue: list[type[PubSubError]] = [PubSubError]
    while queue:
        kind = queue.pop()
        found[kind.code] = kind
        queue.extend(kind.__subclasses__())
    return found


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON can carry it, cut where it is deep, long or many: it is shown, not used."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = value if len(value) <= SHOWN_TEXT_MAX else f"{value[:SHOWN_TEXT_MAX]}..."
        return text.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be sent
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return value if value - value == 0.0 else repr(value)
    if isinstance(value, list | tuple | dict) and depth >= SHOWN_DEPTH_MAX:
        return "..."
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value[:SHOWN_ITEMS_MAX]]
    if isinstance(value, dict):
        items = list(value.items())[:SHOWN_ITEMS_MAX]
        return {str(name)[:SHOWN_TEXT_MAX]: _plain(item, depth + 1) for name, item in items}
    return repr(value)[:SHOWN_TEXT_MAX]


def shown(value: Any) -> str:
    """Return a value as a person is shown it: texts in quotes, so that ``"60"`` and ``60`` differ."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be printed
    if isinstance(value, list | tuple):
        return f"[{', '.join(shown(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{shown(str(name))}: {shown(item)}' for name, item in value.items())}}}"
    return repr(value)


def allowed(limit: Any) -> str:
    """Return a limit as a person is shown it: words are no values and stand without quotes."""
    if isinstance(limit, list | tuple | set | frozenset):
        return ", ".join(str(item) for item in limit)
    return shown(limit) if isinstance(limit, dict) else str(limit)


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)} characters)"
