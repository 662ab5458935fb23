"""Whoever listens may hear nothing for hours: this tells a quiet cluster from one that is gone."""

from __future__ import annotations

import math
from collections.abc import Callable

from pubsub_cluster.client.connection import NOTHING, Connection, Instructions
from pubsub_cluster.client.notifications import ListenKey

# A listener greets the cluster this often to notice that it was restarted.
HEARTBEAT_S = 2.0
# Silence after a greeting that a listener is told of; the cluster answers at once.
SILENCE_TOLD_S = HEARTBEAT_S
# A greeting counts from its answer, which comes a little later: who looks in time must not find it too early.
GREETED_SHARE = 0.75  # of `HEARTBEAT_S`


class Watch:
    """Looks after one listener; a pure state machine, like the connection.

    Parameters
    ----------
    connection : Connection
    key : (str, str or None)
        Of the listener.
    timeout_s : float
        A silence of this length after a greeting is an error, unless somebody is told of silences instead.
    on_silence, on_return : callable or None
        Called once for each silence, and when the cluster is heard again after one that was told.
    """

    def __init__(
        self,
        connection: Connection,
        key: ListenKey,
        timeout_s: float,
        on_silence: Callable[[], None] | None,
        on_return: Callable[[], None] | None = None,
    ) -> None:
        self._connection = connection
        self._key = key
        self._timeout_s = timeout_s
        self._on_silence = on_silence
        self._on_return = on_return
        self._looked_s = -math.inf
        self._asked_s = math.inf  # when the cluster was greeted first since it was heard
        self._told = False

    def look(self, now_s: float) -> Instructions:
        """Return what to do; to be called at least every `HEARTBEAT_S` while somebody waits.

        Raises
        ------
        ReplyTimeoutError
            The cluster has not answered a greeting for `timeout_s`.
        PubSubError
            It has refused the listener after a restart.
        """
        error = self._connection.listen_errors.pop(self._key, None)
        if error is not None:
            raise error
        is_back = now_s - self._looked_s > 2 * HEARTBEAT_S  # nobody has waited meanwhile
        is_heard = (self._connection.heard_at_s or 0.0) >= self._asked_s
        if is_back or is_heard:
            self._asked_s = math.inf
        if is_heard and self._told:
            self._told = False
            if self._on_return is not None:
                self._on_return()
        self._looked_s = now_s
        silence_s = (
            now_s - self._asked_s
        )  # below zero while no greeting is out: nothing to hear is no sign then
        if self._on_silence is not None:
            if silence_s >= SILENCE_TOLD_S and not self._told:
                self._told = True
                self._on_silence()
        elif silence_s >= self._timeout_s:
            self._looked_s = -math.inf  # whoever waits once more waits as long again
            raise self._connection.no_reply(f"nothing was heard while listening for `{self._key[0]}`")
        if (
            now_s - self._connection.greeted_at_s < GREETED_SHARE * HEARTBEAT_S
        ):  # nothing else that is answered counts
            return NOTHING
        self._asked_s = min(self._asked_s, now_s)
        return self._connection.probe(now_s)
