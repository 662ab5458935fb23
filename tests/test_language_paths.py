"""Directories that hold sockets: private, ours, never a link; and socket paths that fit."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pubsub_cluster.language import paths
from pubsub_cluster.language.errors import StartError


def test_default_data_dir_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(paths.DATA_DIR_VARIABLE, raising=False)
    assert paths.default_data_dir() == tmp_path / ".local" / "state" / "pubsub-cluster"
    monkeypatch.setenv(paths.DATA_DIR_VARIABLE, "~/elsewhere")
    assert paths.default_data_dir() == tmp_path / "elsewhere"


def test_a_new_directory_is_private_whatever_the_umask(tmp_path: Path) -> None:
    for umask in (0o000, 0o022, 0o277):
        previous = os.umask(umask)
        try:
            made = paths.ensure_private_dir(tmp_path / f"data-{umask:o}")
        finally:
            os.umask(previous)
        assert stat.S_IMODE(made.lstat().st_mode) == 0o700
        assert paths.ensure_private_dir(made) == made


def test_an_open_directory_is_refused_with_the_command_that_closes_it(tmp_path: Path) -> None:
    target = tmp_path / "open"
    target.mkdir(mode=0o755)
    with pytest.raises(StartError, match="chmod 700") as caught:
        paths.ensure_private_dir(target)
    assert (caught.value.seen, caught.value.limit) == ("0755", "0700")


def test_a_link_and_a_file_are_refused(tmp_path: Path) -> None:
    real = paths.ensure_private_dir(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="symbolic link"):
        paths.ensure_private_dir(tmp_path / "link")
    with pytest.raises(StartError, match="no directory"):
        paths.ensure_private_dir(tmp_path / "file")
    with pytest.raises(StartError, match="cannot be made"):
        paths.ensure_private_dir(tmp_path / "file" / "below")


def test_another_users_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = paths.ensure_private_dir(tmp_path / "data")
    monkeypatch.setattr(os, "getuid", lambda: target.lstat().st_uid + 1)
    with pytest.raises(StartError, match="another user"):
        paths.ensure_private_dir(target)


def test_a_long_data_directory_has_a_short_socket_path(tmp_path: Path) -> None:
    short = tmp_path / "d"
    long = tmp_path / ("long-" * 20) / ("name-" * 20)
    assert paths.socket_path("/x", "client.sock") == Path("/x/client.sock")
    found = paths.socket_path(long)
    try:
        assert len(os.fsencode(found)) <= paths.SOCKET_PATH_SIZE_BYTES_MAX
        assert stat.S_IMODE(found.parent.lstat().st_mode) == 0o700
        assert found == paths.socket_path(str(long) + "/"), "the same for every spelling of the directory"
        assert paths.socket_path(short / ("other-" * 20)).parent != found.parent
        assert paths.client_endpoint(long) == f"ipc://{found}"
    finally:
        found.parent.rmdir()
        paths.socket_path(short / ("other-" * 20)).parent.rmdir()


def test_a_socket_name_that_cannot_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="too long"):
        paths.socket_path(tmp_path, "n" * 120)
