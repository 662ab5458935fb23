"""From a publisher's batch to what ``publish`` sends: fields, buffers, and events that cannot be sent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from pubsub_cluster.language.errors import CallerError, EventError, LimitError
from pubsub_cluster.language.payload_dense import DenseColumns, dense_columns, stacked_columns
from pubsub_cluster.language.protocol import PACKED_SIZE_BYTES_MAX, Answer, Buffer, packed

if TYPE_CHECKING:
    from pubsub_cluster.language.batch import Payload

Batch: TypeAlias = (
    "Sequence[Mapping[str, Any]] | Mapping[str, Any] | bytes | bytearray | memoryview | str | Payload"
)

_ANSWERS = {answer.value: answer for answer in Answer}


class Publication(NamedTuple):
    """A batch, ready to be sent.

    Attributes
    ----------
    fields : dict
        Header fields.
    buffers : list of bytes-like
        Those of many columns are packed into one frame.
    answer : Answer
    with_ids : bool
    refused : dict of int to EventError
        Events that could not be encoded; null goes out in their place.
    """

    fields: dict[str, Any]
    buffers: list[Buffer]
    answer: Answer
    with_ids: bool
    refused: dict[int, EventError]


def publication_of(
    batch: Batch,
    answer: Answer,
    with_ids: bool,
    fields: Mapping[str, Any],
    size_bytes_max: int,
    events_max: int,
) -> Publication:
    """Encode a batch.

    Parameters
    ----------
    batch : Batch
        See `Client.publish`.
    answer, with_ids
        What is asked for.
    fields : mapping
        Further header fields (batch id, publisher).
    size_bytes_max, events_max : int
        The cluster's limits: what is above them is refused here, because the socket drops it without a word.

    Raises
    ------
    LimitError
        Too many events or bytes.
    EventError
        It is no batch at all.
    """
    if with_ids and answer is not Answer.HANDLES:
        raise CallerError(
            "ids come with handles only", seen=answer.value, remedy='Publish with answer="handles".'
        )
    header = {"batch": None, "answer": answer.value, "ids": with_ids, **fields}
    if type(batch) is dict and len(batch) > 2:
        dense = dense_columns(batch, PACKED_SIZE_BYTES_MAX)
        if dense is not None:
            _check_size(dense.event_count, events_max, len(dense.block), size_bytes_max)
            return _of_dense(dense, header, answer, with_ids)
    payload = payload_of(batch)
    header["batch"] = payload.header
    size_bytes = payload.size_bytes
    _check_size(payload.header["event_count"], events_max, size_bytes, size_bytes_max)
    buffers = list(payload.buffers)
    if len(buffers) > 2 and size_bytes <= PACKED_SIZE_BYTES_MAX:
        header["sizes"], frame = packed(buffers)
        buffers = [frame]
    return Publication(header, buffers, answer, with_ids, dict(payload.refused))


def stack_of(
    batches: Sequence[Batch],
    answer: Answer,
    fields: Mapping[str, Any],
    size_bytes_max: int,
    events_max: int,
) -> Publication | None:
    """Encode several batches as one, which has the events of each in turn.

    Parameters
    ----------
    batches : sequence of Batch
    answer : Answer
    fields : mapping
        Further header fields (batch id, publisher).
    size_bytes_max, events_max : int
        The cluster's limits.

    Returns
    -------
    Publication or None
        None where they are not of the same columns of integers, or beyond the limits together.
    """
    dense = stacked_columns(batches, PACKED_SIZE_BYTES_MAX)
    if dense is None or dense.event_count > events_max or len(dense.block) > size_bytes_max:
        return None
    return _of_dense(dense, {"batch": None, "answer": answer.value, "ids": False, **fields}, answer, False)


def _of_dense(dense: DenseColumns, header: dict[str, Any], answer: Answer, with_ids: bool) -> Publication:
    header["batch"] = orjson.Fragment(dense.header_json)
    header["sizes"] = orjson.Fragment(dense.sizes_json)
    return Publication(header, [dense.block], answer, with_ids, {})


def answer_of(name: str) -> Answer:
    """Return the answer of a name; raises `CallerError` where there is none."""
    answer = _ANSWERS.get(name)
    if answer is None:
        raise CallerError("there is no such answer", seen=name, limit=list(_ANSWERS))
    return answer


def _check_size(event_count: int, events_max: int, size_bytes: int, size_bytes_max: int) -> None:
    if event_count > events_max:
        raise LimitError(
            "too many events in one batch",
            seen=event_count,
            limit=events_max,
            remedy="Split the batch.",
            limit_name="events_per_batch_max",
        )
    if size_bytes > size_bytes_max:
        raise LimitError(
            "the batch has too many bytes",
            seen=size_bytes,
            limit=size_bytes_max,
            remedy="Split the batch.",
            limit_name="batch_size_bytes_max",
        )


@functools.cache
def _from_dicts() -> Callable[[Sequence[Mapping[str, Any]]], Payload]:
    # An import statement costs more than encoding a small event, even where there is nothing left to import.
    from pubsub_cluster.language.batch import payload_from_dicts

    return payload_from_dicts


def payload_of(batch: Any) -> Payload:
    """Return a batch in any of its forms as a payload.

    Raises
    ------
    EventError
        It is no batch at all.
    """
    if type(batch) is list:  # the common case: no look at abstract classes
        return _from_dicts()(batch)
    # Imported here: a client that only subscribes needs none of it.
    from pubsub_cluster.language import batch as batches
    from pubsub_cluster.language.payload_arrow import is_arrow
    from pubsub_cluster.language.payload_pandas import is_pandas

    if isinstance(batch, batches.Payload):
        return batch
    if isinstance(batch, str):
        return batches.payload_from_json(batch)
    if isinstance(batch, bytes | bytearray | memoryview):
        return batches.payload_from_json(bytes(batch))
    if isinstance(batch, Mapping) or is_arrow(batch) or is_pandas(batch):
        return batches.payload_from_columns(batch)
    if isinstance(batch, Sequence):
        return batches.payload_from_dicts(batch)
    raise EventError(
        "this is no batch of events",
        seen=type(batch).__name__,
        remedy="Give a list of dicts, a dict of columns, or bytes of JSON.",
    )
