"""What must not run backwards from one life to the next: the clock, and the end of the change table.

One page, mapped: two words per mark, the second written after the first, so that of a mark that is half
written the smaller one counts. What was stored survives the death of every process at any instant, because
the page belongs to the system; a loss of power may cost what was stored in the last seconds. So a mark is
stored *after* what it tells has become durable elsewhere: it can be behind, never ahead, and a table that
ends before its mark has lost something.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.shm.fault_points import fault_point

MARKS_FILE = "marks"
MARKS_SIZE_BYTES = 4_096
MARKS_STAMP = int.from_bytes(b"PSCMARK\x01", "little")
_CLOCK, _VERSION = 2, 4  # words; the stamp is word 0


class Marks:
    """The marks of one data directory.

    Parameters
    ----------
    data_dir : Path

    Raises
    ------
    StoreError
        The file is of another format, or cannot be made.
    """

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / MARKS_FILE
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(descriptor).st_size < MARKS_SIZE_BYTES:
                    os.posix_fallocate(descriptor, 0, MARKS_SIZE_BYTES)  # a full disk shows here, not later
                mapped = mmap.mmap(descriptor, MARKS_SIZE_BYTES)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreError(
                "the file of marks cannot be used",
                seen=f"{error} ({self.path})",
                remedy="Free some disk space, or make the data directory writable.",
            ) from error
        self._words = np.frombuffer(mapped, np.int64)
        if not self._words[0]:
            self._words[0] = MARKS_STAMP
        elif self._words[0] != MARKS_STAMP:
            raise StoreError(
                "the file of marks is damaged or of another version",
                seen=hex(int(self._words[0])),
                limit=hex(MARKS_STAMP),
                remedy=f"Remove {self.path} to go on without it: the clock and the end of the change table "
                "are then taken as they are.",
            )

    @property
    def clock_us(self) -> int:
        """The latest time of acceptance of a batch, microseconds since the epoch; 0: none yet."""
        return self._get(_CLOCK)

    @clock_us.setter
    def clock_us(self, value: int) -> None:
        self._words[_CLOCK] = value
        self._words[_CLOCK + 1] = value

    @property
    def version(self) -> int:
        """The last change that is known to be durable."""
        return self._get(_VERSION)

    @fault_point("marks.write")
    def committed(self, version: int) -> None:
        """Remember what has become durable; from one thread."""
        self._words[_VERSION] = version
        self._words[_VERSION + 1] = version

    def _get(self, word: int) -> int:
        return int(min(self._words[word], self._words[word + 1]))
