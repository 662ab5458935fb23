"""The doctor: each check alone, and the verdict."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from pubsub_cluster.cli import doctor_checks as checks
from pubsub_cluster.cli.main import cli


def test_doctor_lists_every_check(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["doctor", "--json", "--data", str(tmp_path / "data")])
    body = json.loads(result.stdout)
    names = [finding["name"] for finding in body["findings"]]
    assert names == [
        "python", "packages", "shared memory", "cpus", "pinning", "kernel cache", "data directory",
        "open files", "demo", "java",
    ]  # fmt: skip
    assert {finding["state"] for finding in body["findings"]} <= {"ok", "warning", "missing"}
    assert all(finding["remedy"] for finding in body["findings"] if finding["state"] != "ok")
    assert result.exit_code == (0 if body["can_start"] else 1)


def test_missing_optional_things_do_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [checks.Finding("java", checks.MISSING, "no java", "install", required=False)]
    monkeypatch.setattr(checks, "examine", lambda _: found)
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 0
    assert "missing  java            no java (optional)" in result.stdout
    assert "-> install" in result.stdout


def test_missing_required_things_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checks, "examine", lambda _: [checks.Finding("shared memory", checks.MISSING, "full", "more")]
    )
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 1
    assert "A cluster cannot start here yet." in result.stdout


@pytest.mark.parametrize(
    ("free_bytes", "state"), [(1 << 20, "missing"), (512 << 20, "warning"), (4 << 30, "ok")]
)
def test_shared_memory_by_free_room(
    free_bytes: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = SimpleNamespace(f_frsize=1, f_blocks=8 << 30, f_bavail=free_bytes)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    assert checks.check_shared_memory(tmp_path).state == state
    assert list(tmp_path.iterdir()) == []


def test_shared_memory_that_is_not_there(tmp_path: Path) -> None:
    finding = checks.check_shared_memory(tmp_path / "no")
    assert (finding.state, finding.required) == ("missing", True)


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda folder: (folder / "cpu.max").write_text("150000 100000\n"), 1.5),
        (lambda folder: (folder / "cpu.max").write_text("max 100000\n"), None),
        (lambda folder: None, None),
    ],
)
def test_cpu_quota(write: Callable[[Path], object], expected: float | None, tmp_path: Path) -> None:
    write(tmp_path)
    assert checks.cgroup_cpus(tmp_path) == expected


def test_cpu_quota_of_the_first_cgroups(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("200000")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert checks.cgroup_cpus(tmp_path) == 2.0


def test_data_directory(tmp_path: Path) -> None:
    assert checks.check_data_dir(tmp_path / "new").state == "ok"
    assert checks.check_data_dir(tmp_path / "new" / "below" / "it").state == "ok"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    below_a_file = checks.check_data_dir(tmp_path / "file" / "data")
    assert below_a_file.state == "missing" and "cannot be made" in below_a_file.detail
    (tmp_path / "file").unlink()
    assert checks.check_data_dir(Path("/proc/no such/data")).state == "missing"
    assert not (tmp_path / "new").exists()
    shared = tmp_path / "open"
    shared.mkdir()
    shared.chmod(0o755)
    finding = checks.check_data_dir(shared)
    assert (finding.state, finding.required) == ("missing", True)
    assert "chmod 700" in finding.remedy


def test_java_versions() -> None:
    assert checks.java_version('openjdk version "17.0.9" 2023-10-17') == 17
    assert checks.java_version('java version "1.8.0_391"') == 8
    assert checks.java_version('openjdk version "21" 2023-09-19') == 21
    assert checks.java_version("nonsense") is None


def test_java_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = checks.check_java()
    assert (finding.state, finding.required) == ("missing", False)
