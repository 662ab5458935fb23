"""Settings from a file and from options."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubsub_cluster.cli.config_file import cluster_config, read_settings, shards_and_replicas
from pubsub_cluster.language.errors import StartError


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    return path


def test_file_becomes_config(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'data_dir = "/srv/x"\nshards = 3\nreplicas = 2\npin = false\nretune_interval_s = 5\n'
        "[limits]\nevents_per_batch_max = 10\n"
        '[schema]\nattributes = [{name = "price", domain = "float"}]\n',
    )
    config = cluster_config(read_settings(path))
    assert (config.shards, config.replicas, config.workers, config.pin) == (3, 2, 6, False)
    assert config.data_dir == Path("/srv/x")
    assert config.limits.events_per_batch_max == 10
    assert config.schema.names == ("price",)


@pytest.mark.parametrize(
    ("text", "condition", "remedy"),
    [
        ("shard = 2", "unknown key shard", "Did you mean shards?"),
        ("[limits]\nevents_per_batch = 2", "unknown key limits.events_per_batch",
         "Did you mean limits.events_per_batch_max?"),
        ("colour = 2", "unknown key colour", "Remove it."),
    ],
)  # fmt: skip
def test_unknown_keys_are_refused_with_a_suggestion(
    text: str, condition: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(StartError) as caught:
        read_settings(write(tmp_path, text))
    assert condition in caught.value.condition
    assert caught.value.remedy == remedy


@pytest.mark.parametrize("text", ['shards = "two"', "shards = true", "pin = 1", "limits = 3", 'limits = "x"'])
def test_values_of_another_kind_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(StartError):
        read_settings(write(tmp_path, text))


def test_broken_toml_says_where(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="line 2"):
        read_settings(write(tmp_path, "shards = 2\nreplicas = =\n"))


def test_schema_from_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"attributes": [{"name": "a", "domain": "integer"}]}')
    config = cluster_config({"schema": "schema.json", "data_dir": str(tmp_path)}, tmp_path)
    assert config.schema.names == ("a",)
    with pytest.raises(StartError, match="schema file"):
        cluster_config({"schema": "other.json"}, tmp_path)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((4, 2, None), (2, 2)),
        ((4, None, 4), (1, 4)),
        ((4, 2, 2), (2, 2)),
        ((4, None, None), (2, 2)),
        ((3, None, None), (3, 1)),
        ((1, None, None), (1, 1)),
        ((None, 3, None), (3, 1)),
        ((None, None, 2), (1, 2)),
    ],
)
def test_workers_are_shards_times_replicas(
    given: tuple[int | None, int | None, int | None], expected: tuple[int, int]
) -> None:
    assert shards_and_replicas(*given) == expected


@pytest.mark.parametrize("given", [(5, 2, None), (4, 2, 3), (1, 2, None), (3, None, 2)])
def test_numbers_that_contradict_each_other(given: tuple[int | None, int | None, int | None]) -> None:
    with pytest.raises(StartError, match="shards times replicas"):
        shards_and_replicas(*given)


def test_defaults_come_from_the_allowed_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for cpu_count, expected in ((1, (1, 1)), (2, (2, 1)), (5, (2, 2)), (8, (2, 4))):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=cpu_count: set(range(n)))
        assert shards_and_replicas(None, None, None) == expected


def test_a_wrong_schema_file_is_named_with_its_attribute(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"attributes": [{"name": "price", "domain": "int"}]}')
    with pytest.raises(StartError) as caught:
        cluster_config({"schema": str(path), "data_dir": tmp_path})
    assert str(path) in caught.value.condition
    assert "attribute 'price'" in caught.value.condition
    assert caught.value.remedy == "Did you mean 'integer'?"
