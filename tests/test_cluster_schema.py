"""A schema with event types, extended while a cluster works and kept by it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from clusters import next_generation

from pubsub_cluster import Cluster
from pubsub_cluster.cli.main import cli
from pubsub_cluster.client.blocking import run
from pubsub_cluster.client.matches import Matches
from pubsub_cluster.language.errors import CallerError, ProtocolError, SchemaConflictError, StartError
from pubsub_cluster.language.protocol import Op
from pubsub_cluster.language.schema import Attribute, Domain, DomainKind, Schema
from pubsub_cluster.language.schema_rules import is_extension

pytestmark = pytest.mark.cluster
GIVEN = Schema.from_json(
    {
        "attributes": [{"name": "price", "domain": "float"}],
        "types": [{"name": "item", "attributes": [{"name": "price"}]}],
    }
)
ITEM = {"event_type": "item", "price": 1.0}
CHAIR = {"event_type": ["item", "furniture"], "price": 2.0, "kind": "dining/chair"}


def counts(told: Matches) -> list[int]:
    return [len(found) for found in told]


def test_extensions_are_global_and_durable(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        Cluster(data_dir=data, shards=2, replicas=1, schema=GIVEN) as cluster,
        cluster.client() as client,
        cluster.client() as other,
    ):
        client.subscribe("price > 0", id="priced")
        client.subscribe('event_type = "furniture"', id="furniture")  # a type that is yet to come
        with pytest.raises(CallerError, match="'kind' is not declared"):
            client.subscribe('kind UNDER "dining"', id="dining")
        told = client.publish([ITEM, CHAIR, {"event_type": "item"}])
        assert counts(told) == [1, 0, 0]
        assert sorted(told.refused) == [1, 2]
        assert "'price', which is mandatory" in told.refused[2].condition
        before = next_generation(client)
        verified = client.verify()
        assert verified["events"] and verified["matches"] and not verified["differences"]

        client.schema_add_domain(Domain("category", DomainKind.HIERARCHICAL, ("dining/chair", "bedroom")))
        client.schema_add_attribute("kind", "category")
        extended = client.schema_add_type("furniture", mandatory=("kind",))
        assert other.schema_show() == extended
        for name, refused in (("kind", "of this name"), ("furniture", "of this name")):
            with pytest.raises(SchemaConflictError, match=refused):
                other.schema_add_attribute("kind", "float")
            with pytest.raises(SchemaConflictError, match=refused):
                other.schema_add_type(name="furniture", optional=(name,) if name == "kind" else ())
        with pytest.raises(SchemaConflictError, match="by a mandatory attribute"):
            session = other._session
            definition = {"type": "item", "name": "kind", "optional": False}
            run(session.ask(Op.SCHEMA, {"action": "extend_type", "definition": definition}))
        with pytest.raises(ProtocolError, match="no such action"):
            run(other._session.ask(Op.SCHEMA, {"action": "remove_type"}))
        assert other.schema_show() == extended
        other.subscribe('kind UNDER "dining"', id="dining")
        for _ in range(2):  # read by one worker of each shard
            told = other.publish([ITEM, CHAIR])
            assert counts(told) == [1, 3] and not told.refused
        assert next_generation(client) > before
        assert counts(client.publish([ITEM, CHAIR])) == [1, 3]

        shown = CliRunner().invoke(
            cli, ["schema", "extend-type", "item", "kind", "--data", str(data), "--json"]
        )
        assert shown.exit_code == 0, shown.output
        extended = Schema.from_json(orjson.loads(shown.output))
        assert "kind (optional)" in CliRunner().invoke(cli, ["schema", "show", "--data", str(data)]).output
        refused = CliRunner().invoke(cli, ["schema", "extend-type", "item", "kind", "--data", str(data)])
        assert refused.exit_code != 0
    with pytest.raises(StartError, match="another schema"):
        Cluster(data_dir=data, shards=1, replicas=1, schema=Schema((Attribute("price", "float"),))).start()  # type: ignore[arg-type]
    with Cluster(data_dir=data, shards=1, replicas=1, schema=GIVEN) as cluster, cluster.client() as client:
        assert client.schema_show() == extended and is_extension(extended, GIVEN)
        told = client.publish([ITEM, CHAIR, {**ITEM, "kind": "dining"}])
        assert counts(told) == [1, 3, 2] and not told.refused


def test_a_schema_without_types_is_not_extended() -> None:
    with Cluster(shards=1, replicas=1) as cluster, cluster.client() as client:
        with pytest.raises(SchemaConflictError, match="no event types"):
            client.schema_add_attribute("price", "float")
        assert client.schema_show() == Schema()
        assert not client.publish([{"anything": 1}]).refused
