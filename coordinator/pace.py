"""Work that gives way: what share of the coordinator's time it gets beside everything else.

Such work is done in slices. After one, everybody else has some times as long as it took, even if there is
nothing for the coordinator to do in that time: what it does not use, workers and clients do. Where there is
always more of this work it has to be done, though, and what nobody asks the coordinator for is its time then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

REST_S_MAX = 0.01  # whatever a slice took: whoever waits for this work waits no longer for its next slice
RECENT_S = 1.0


class Pace:
    """The pace of one kind of work.

    A burst is spread over a longer time than the same work where there is always more of it: everybody else
    had room for it in their time before. So the share begins with `first_share` and grows with what this work
    has had of the last second; when it has reached `share`, the work rests for those who wait alone.

    Parameters
    ----------
    first_share, share : float
        Of the time of a processor, at first and in the long run.
    is_in_use : callable
        Tells whether anybody publishes at a moment: else there is nobody to rest for.
    """

    def __init__(self, first_share: float, share: float, is_in_use: Callable[[float], bool]) -> None:
        self._first_share, self._share, self._is_in_use = first_share, share, is_in_use
        self._recent_s = 0.0  # of this work, weighted with how recent it is
        self._ended_s = self._rests_until_s = 0.0
        self._begin_s = 0.0
        self._is_burst = True

    def rest_s(self, now_s: float, others_wait: bool = True) -> float:
        """Return how long it rests from a moment on, by `time.monotonic`; 0 when it is due.

        Parameters
        ----------
        now_s : float
        others_wait : bool
            There is something else to do.
        """
        rests = (others_wait or self._is_burst) and self._is_in_use(now_s)
        return max(self._rests_until_s - now_s, 0.0) if rests else 0.0

    def begin(self) -> None:
        """Take note that a slice begins."""
        self._begin_s = time.thread_time()

    def end(self) -> None:
        """Take note that the slice has ended: it rests."""
        took_s = time.thread_time() - self._begin_s
        now_s = time.monotonic()
        self._recent_s = took_s + self._recent_s * math.exp((self._ended_s - now_s) / RECENT_S)
        share = self._first_share + self._recent_s / RECENT_S
        self._is_burst = share < self._share
        share = min(share, self._share)
        self._rests_until_s = now_s + min(took_s * (1 - share) / share, REST_S_MAX)
        self._ended_s = now_s
