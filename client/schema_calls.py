"""The schema of a cluster, and the rules by which publishers extend it."""

from __future__ import annotations

from typing import Any

from pubsub_cluster.client.session import Session
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.event_types import EventType, TypeAttribute
from pubsub_cluster.language.protocol import Op
from pubsub_cluster.language.schema import Domain, Schema


class SchemaCalls:
    """Calls about the schema; part of `Calls`.

    Each extension is one change for all publishers and subscribers: durable when it is answered, and in force
    for every request after that. `SchemaConflictError` says why a rule cannot be applied; nothing is changed
    then (`docs/semantics.md`, event types).
    """

    _session: Session

    async def schema_show(self) -> Schema:
        """Return the schema as it is."""
        return await self._schema("show")

    async def schema_add_domain(self, domain: Domain) -> Schema:
        """Add a domain, for attributes to be declared by its name; return the extended schema.

        Raises
        ------
        SchemaConflictError
            Events have no types here, or there is a domain of this name.
        """
        return await self._schema("add_domain", domain.to_json())

    async def schema_add_attribute(self, name: str, domain: str, *, unique: bool = False) -> Schema:
        """Add an attribute, for types to have; return the extended schema.

        Parameters
        ----------
        name : str
        domain : str
            A kind of domain without a list of values (``"float"``), or the name of a domain that was added.
        unique : bool
            No event has several values of it, whatever its types are.

        Raises
        ------
        SchemaConflictError
            Events have no types here, or there is an attribute of this name.
        CallerError
            There is no such domain.
        """
        definition = {"name": name, "domain": domain, "unique": unique}
        return await self._schema("add_attribute", definition)

    async def schema_extend_type(self, event_type: str, attribute: str, *, multiple: bool = False) -> Schema:
        """Give an event type one more attribute, an optional one; return the extended schema.

        Raises
        ------
        SchemaConflictError
            Events have no types here, or there is no such type; the attribute is not declared, or the type
            has it already; it is declared unique and would be multiple.
        """
        definition = {"type": event_type, "name": attribute, "multiple": multiple}
        return await self._schema("extend_type", definition)

    async def schema_add_type(
        self,
        name: str,
        *,
        mandatory: tuple[str, ...] = (),
        optional: tuple[str, ...] = (),
        multiple: tuple[str, ...] = (),
    ) -> Schema:
        """Add an event type; return the extended schema.

        Parameters
        ----------
        name : str
        mandatory, optional : tuple of str
            Its attributes, declared ones.
        multiple : tuple of str
            Those of them that may have several values.

        Raises
        ------
        SchemaConflictError
            Events have no types here, or there is a type of this name; an attribute is not declared, or is
            declared unique and would be multiple.
        CallerError
            An attribute is given twice, or is in `multiple` alone.
        """
        event_type = event_type_of(name, mandatory, optional, multiple)
        return await self._schema("add_type", event_type.to_json())

    async def _schema(self, action: str, definition: dict[str, Any] | None = None) -> Schema:
        fields: dict[str, Any] = {"action": action}
        if definition is not None:
            fields["definition"] = definition
        return Schema.from_json((await self._session.ask(Op.SCHEMA, fields)).header["schema"])


def event_type_of(
    name: str, mandatory: tuple[str, ...], optional: tuple[str, ...], multiple: tuple[str, ...]
) -> EventType:
    """Return an event type whose attributes are told by lists.

    Raises
    ------
    CallerError
        An attribute is in both of the first two lists, or in the third alone.
    """
    if alone := sorted(set(multiple) - {*mandatory, *optional}):
        raise CallerError(
            f"event type {name!r}: attributes are said to be multiple, but neither mandatory nor optional",
            seen=alone,
            remedy="Name them there, too.",
        )
    listed = [(each, False) for each in mandatory] + [(each, True) for each in optional]
    attributes = tuple(TypeAttribute(each, is_optional, each in multiple) for each, is_optional in listed)
    return EventType(name, attributes)
