"""A catalogue in private memory whose subscriptions have owners."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.shm.catalogue import CatalogueWriter


def owned_catalogue(
    subscriptions: Iterable[tuple[str | None, Expression | str]],
    schema: Schema = EMPTY_SCHEMA,
    limits: Limits = DEFAULT_LIMITS,
) -> CatalogueWriter:
    """Return a catalogue of (owner, expression), the expression as a tree or as text."""
    writer = CatalogueWriter.in_memory(4_096)
    for handle, (owner, expression) in enumerate(subscriptions, 1):
        tree: Any = parse_text(expression) if isinstance(expression, str) else expression
        form = normalise(tree, schema, limits)
        writer.append(handle, f"s{handle}", owner, form, INT64_MIN, INT64_MAX)
    return writer
