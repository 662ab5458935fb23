"""Tasks that wait for a worker: one of each publisher in turn, whoever has how many."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence


class FairQueue:
    """Numbers of batches, each in the line of somebody; the first of every line comes before any second.

    Groups of small publications stand in one line, that of None: the intake is fair among their publishers.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[str | None, deque[int]] = OrderedDict()
        self._returned: deque[int] = deque()

    def __bool__(self) -> bool:
        """Say whether any waits."""
        return bool(self._returned or self._lines)

    def __contains__(self, line: str | None) -> bool:
        """Say whether somebody's batch waits for its turn."""
        return line in self._lines

    @property
    def head(self) -> int:
        """The batch whose turn it is; only while any waits."""
        return self._returned[0] if self._returned else next(iter(self._lines.values()))[0]

    def append(self, line: str | None, batch_no: int) -> None:
        """Add a batch to a line."""
        self._lines.setdefault(line, deque()).append(batch_no)

    def put_back(self, batch_nos: Sequence[int]) -> None:
        """Return batches, oldest first, that had had their turn: they come before all others."""
        self._returned.extendleft(reversed(batch_nos))

    def pop(self) -> int:
        """Take the batch whose turn it is."""
        if self._returned:
            return self._returned.popleft()
        line, batch_nos = next(iter(self._lines.items()))
        batch_no = batch_nos.popleft()
        if batch_nos:
            self._lines.move_to_end(line)
        else:
            del self._lines[line]
        return batch_no

    def remove(self, batch_no: int) -> None:
        """Take a batch out of whichever line it stands in."""
        if batch_no in self._returned:
            self._returned.remove(batch_no)
            return
        for line, batch_nos in self._lines.items():
            if batch_no in batch_nos:
                batch_nos.remove(batch_no)
                if not batch_nos:
                    del self._lines[line]
                return
        raise ValueError(f"batch {batch_no} does not wait")
