"""``schema``: the event types and attributes of a cluster, and extensions of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pubsub_cluster.cli.common import cluster_options, emit_json, json_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client
    from pubsub_cluster.language.event_types import TypeAttribute
    from pubsub_cluster.language.schema import Attribute, Schema

KINDS = ("integer", "float", "string", "boolean", "timestamp", "enumerated", "hierarchical")
VALUES_SHOWN = 8


@click.group()
def schema() -> None:
    """Show the schema, or extend it while the cluster works.

    Where events have types, each event says in `event_type` which it is of, one or several, and is checked
    against them. Publishers may add what they need: domains, attributes, optional attributes of a type, and
    types. Nothing is taken away, so events that were valid and subscriptions that were made stay so. Events
    have types in a cluster that was started with a schema that has "types", be they none: {"types": []}.

    \b
    Example:
      pubsub-cluster schema show
      pubsub-cluster schema add-domain category hierarchical --value dining/table --value dining/chair
      pubsub-cluster schema add-attribute kind --domain category
      pubsub-cluster schema add-type furniture --mandatory kind
    """


@schema.command()
@cluster_options
@json_option
def show(connect: Callable[[], Client], as_json: bool) -> None:
    """Show types, attributes and domains; --json gives a schema file.

    \b
    Example:
      pubsub-cluster schema show
      pubsub-cluster schema show --json > schema.json
    """
    with connect() as client:
        _tell(client.schema_show(), as_json)


@schema.command("add-domain")
@click.argument("name")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--value", "values", multiple=True, help="A word, in order, or a path of a tree; repeatable.")
@click.option("--ordered", is_flag=True, help="The order of the words is meant: < <= > >= compare by it.")
@cluster_options
@json_option
def add_domain(
    connect: Callable[[], Client],
    name: str,
    kind: str,
    values: tuple[str, ...],
    ordered: bool,
    as_json: bool,
) -> None:
    """Add the domain NAME, for attributes to be declared by.

    Another domain may have the same values; the name must be new.

    \b
    Example:
      pubsub-cluster schema add-domain size enumerated --value small --value large --ordered
      pubsub-cluster schema add-domain category hierarchical --value dining/table --value bedroom/chair
    """
    from pubsub_cluster.language.schema import Domain, DomainKind

    domain = Domain(name, DomainKind(kind), values, ordered)
    with connect() as client:
        _tell(client.schema_add_domain(domain), as_json)


@schema.command("add-attribute")
@click.argument("name")
@click.option("--domain", required=True, help="A kind (float, string ...) or the name of an added domain.")
@click.option("--unique", is_flag=True, help="No event has several values of it, whatever its types are.")
@cluster_options
@json_option
def add_attribute(connect: Callable[[], Client], name: str, domain: str, unique: bool, as_json: bool) -> None:
    """Add the attribute NAME, for types to have.

    \b
    Example:
      pubsub-cluster schema add-attribute price --domain float --unique
      pubsub-cluster schema add-attribute kind --domain category
    """
    with connect() as client:
        _tell(client.schema_add_attribute(name, domain, unique=unique), as_json)


@schema.command("extend-type")
@click.argument("event_type", metavar="TYPE")
@click.argument("attribute")
@click.option("--multiple", is_flag=True, help="An event may have several values of it.")
@cluster_options
@json_option
def extend_type(
    connect: Callable[[], Client], event_type: str, attribute: str, multiple: bool, as_json: bool
) -> None:
    """Give TYPE one more ATTRIBUTE, which is optional: events without it stay valid.

    \b
    Example:
      pubsub-cluster schema extend-type furniture material --multiple
    """
    with connect() as client:
        _tell(client.schema_extend_type(event_type, attribute, multiple=multiple), as_json)


@schema.command("add-type")
@click.argument("name")
@click.option("--mandatory", multiple=True, help="An attribute that its events must have; repeatable.")
@click.option("--optional", multiple=True, help="An attribute that its events may have; repeatable.")
@click.option("--multiple", multiple=True, help="One of these that may have several values; repeatable.")
@cluster_options
@json_option
def add_type(
    connect: Callable[[], Client],
    name: str,
    mandatory: tuple[str, ...],
    optional: tuple[str, ...],
    multiple: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add the event type NAME; its attributes must be declared.

    \b
    Example:
      pubsub-cluster schema add-type furniture --mandatory price --mandatory kind --optional material
      pubsub-cluster schema add-type tagged --optional tag --multiple tag
    """
    with connect() as client:
        _tell(
            client.schema_add_type(name, mandatory=mandatory, optional=optional, multiple=multiple), as_json
        )


def _tell(found: Schema, as_json: bool) -> None:
    if as_json:
        emit_json(found.to_json())
    else:
        click.echo(page(found))


def page(found: Schema) -> str:
    """Return a schema in words."""
    lines = []
    if found.types is None:
        lines.append("Events have no types.")
    else:
        lines.append("Event types:" if found.types.types else "Events have types; there are none yet.")
        for each in found.types.types:
            words = ", ".join(_attribute_in_words(item) for item in each.attributes)
            lines.append(f"  {each.name}: {words or 'no attributes'}")
    lines.append("Attributes:" if found.attributes else "No attributes are declared.")
    lines += [f"  {each.name}: {_domain_in_words(each)}" for each in found.attributes]
    if found.domains:
        lines.append("Domains:")
        lines += [f"  {each.name}: {_domain_in_words(each.attribute(each.name))}" for each in found.domains]
    if found.closed and found.types is None:
        lines.append("Other attributes are refused.")
    return "\n".join(lines)


def _attribute_in_words(item: TypeAttribute) -> str:
    rules = ["optional"] * item.is_optional + ["multiple"] * item.is_multiple
    return f"{item.name} ({', '.join(rules)})" if rules else item.name


def _domain_in_words(attribute: Attribute) -> str:
    words = [str(attribute.domain), *["ordered"] * attribute.ordered, *["unique"] * attribute.unique]
    if attribute.values:
        shown = ", ".join(attribute.values[:VALUES_SHOWN])
        more = len(attribute.values) - VALUES_SHOWN
        words.append(f"of {shown}" + (f" and {more} more" if more > 0 else ""))
    return ", ".join(words)
