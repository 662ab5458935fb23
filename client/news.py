"""Listeners that call a function, as far as there is something to call it with."""

from __future__ import annotations

from collections import deque

from pubsub_cluster.client.listener import Hearing


class News:
    """Who is to be told, in the order in which they heard.

    Attributes
    ----------
    told_count : int
        Notifications that a function was called with.
    """

    def __init__(self) -> None:
        self._waiting: deque[Hearing] = deque()
        self._telling = False
        self.told_count = 0

    def __bool__(self) -> bool:
        """Return whether somebody is to be told."""
        return bool(self._waiting)

    def note(self, listener: Hearing) -> None:
        """A listener has heard something, or may have."""
        if listener.on_notification is not None and not listener.has_news and listener.queued_count:
            listener.has_news = True
            self._waiting.append(listener)

    def tell(self) -> None:
        """Call the functions; each may use the client, and what one raises is raised."""
        if self._telling:  # it was told, and waits for something: what comes meanwhile is told after it
            return
        self._telling = True
        try:
            while self._waiting:
                self._tell_one(self._waiting[0])
        finally:
            self._telling = False

    def _tell_one(self, listener: Hearing) -> None:
        queued_count = 0 if listener.closed else listener.queued_count
        if queued_count <= 1:  # the last one: noted anew if more comes meanwhile
            self._waiting.popleft()
            listener.has_news = False
            if not queued_count:
                return
        self.told_count += 1
        try:
            listener.tell()
        except BaseException:
            self.note(listener)
            raise
