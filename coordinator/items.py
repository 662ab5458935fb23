"""Items of requests that change the catalogue: what they must be, what they need and what is told of them."""

from __future__ import annotations

from typing import Any

import msgspec

from pubsub_cluster.language.change_items import ChangeItem
from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.normalise import never
from pubsub_cluster.language.subscription import Form
from pubsub_cluster.language.vocabulary import Conjunction
from pubsub_cluster.shm.catalogue import CatalogueCounts, NewRow, room_for
from pubsub_cluster.shm.change_groups import Change


def room_at_most(change: Change, form: Form) -> CatalogueCounts:
    """Return a bound of what a change needs, from the size of its expression where nothing expands."""
    expression = change.expression or b""
    if isinstance(form, Conjunction):
        form = form.normal_form()
    if form.clauses is None or b"$" in expression:
        return room_for(new_row(change, form))
    predicates = len(form.predicates)
    return CatalogueCounts(
        1,
        int(change.valid_from is not None or change.valid_until is not None),
        len(change.subscription_id.encode()),
        len(form.clauses),
        sum(map(len, form.clauses)),
        predicates,
        2 * predicates + expression.count(b","),
        2 * len(expression) + len(change.owner.encode()),
        2 * predicates,
        1,
    )


def new_row(change: Change, form: Form) -> NewRow:
    """Return the catalogue row of a change that adds one."""
    return NewRow(
        change.handle,
        change.subscription_id,
        change.owner,
        form,
        change.valid_from,
        change.valid_until,
    )


def shape_of(form: Form) -> dict[str, Any]:
    """Return what an answer tells of a form."""
    if isinstance(form, Conjunction):
        return {"clauses": 1, "never": False}
    return {"clauses": len(form.clauses) if form.clauses is not None else 0, "never": never(form)}


def or_none(value: Any) -> Any:
    """Return a member of an item; None where it is absent."""
    return None if value is msgspec.UNSET else value


def body_of(item: Any, keys: frozenset[str]) -> dict[str, Any]:
    """Return an item's members, which must be among `keys`; raises `ExpressionError`."""
    if type(item) is ChangeItem:
        item = item.body()
    if not isinstance(item, dict):
        raise ExpressionError("a subscription is a JSON object", seen=type(item).__name__, limit=sorted(keys))
    unknown = item.keys() - keys
    if unknown:
        raise ExpressionError("unknown key in a subscription", seen=sorted(unknown), limit=sorted(keys))
    return item
