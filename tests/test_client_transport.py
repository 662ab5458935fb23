"""The connection below the client, with nobody at its other end."""

from __future__ import annotations

import pytest

from pubsub_cluster.client import transport


def test_a_connection_opened_anew_holds_nothing_of_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = transport.Transport("ipc:///tmp/psc-nobody-listens")
    sent: list[int] = []
    monkeypatch.setattr(connection, "send", lambda frames: sent.append(len(frames)))
    try:
        connection.hold([b"x" * (transport.REQUESTS_SIZE_BYTES_MAX - 10)])
        connection.reopen()
        connection.hold([b"123456"])
        connection.hold([b"123456"])
        assert not sent, "what it held is gone, and its size with it"
    finally:
        connection.close()
