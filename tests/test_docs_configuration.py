"""`docs/configuration.md` is what the settings are, and its examples work."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pubsub_cluster.cli import configuration
from pubsub_cluster.cli.config_file import cluster_config, read_settings
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import DomainKind, Schema


def test_the_page_is_what_the_settings_are() -> None:
    assert configuration.main(["--check"]) == 0


@pytest.mark.parametrize("settings", [ClusterConfig, Limits])
def test_every_setting_is_explained(settings: type) -> None:
    said = configuration.meanings(settings)
    names = {field.name for field in dataclasses.fields(settings)}
    assert set(said) == names
    assert all(text for name, text in said.items() if name != "limits")
    page = configuration.render()
    assert all(f"| `{name}` |" in page for name in names)


def test_the_configuration_of_the_page_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(configuration.EXAMPLE_TOML)
    config = cluster_config(read_settings(path), tmp_path)
    assert (config.shards, config.replicas, config.retune_interval_s) == (2, 1, 60)
    assert config.limits.events_per_batch_max == 10_000
    assert config.schema.names == ("price", "cabin")


def test_there_is_an_example_of_each_domain_and_it_matches() -> None:
    from pubsub_cluster import Engine

    schema = Schema.from_json(configuration.schema_example())
    assert {attribute.domain for attribute in schema.attributes} == set(DomainKind)
    engine = Engine(schema=schema, rows_max=64)
    event = {}
    for declaration, value, expression in configuration.DOMAINS:
        engine.subscribe(expression, id=declaration["name"])
        event[declaration["name"]] = value
    assert engine.publish([event], ids=True).ids_of(0) == [d["name"] for d, _, _ in configuration.DOMAINS]
