"""The worker as a pure state machine: messages in, actions out; no socket, no clock, no segment.

A worker does one thing at a time, in the order of its messages. A task's matches may need several
pages; the next page is written only when the coordinator has read the one before (`Continue`), and
other tasks go on meanwhile because each has its own result slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from pubsub_cluster.workers import messages as wire


@dataclass(frozen=True, slots=True)
class Configure:
    """Map the segments of the setup, compile the kernels, then say `Ready`."""

    setup: wire.Setup


@dataclass(frozen=True, slots=True)
class TakeSchema:
    """Read later batches by this schema."""

    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MapLayout:
    """Map a generation, then say `LayoutAttached`."""

    message: wire.AttachLayout


@dataclass(frozen=True, slots=True)
class UnmapLayout:
    """Forget a generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class Match:
    """Match the task's batch, then call `WorkerMachine.matched`."""

    task: wire.Task


@dataclass(frozen=True, slots=True)
class WritePage:
    """Write page `page_idx` of the task's answer into its slot, then say so; `more` pages follow."""

    task_id: int
    slot_idx: int
    page_idx: int
    more: bool


@dataclass(frozen=True, slots=True)
class Forget:
    """The task's answer is not needed any more."""

    task_id: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Leave."""


Action: TypeAlias = Configure | TakeSchema | MapLayout | UnmapLayout | Match | WritePage | Forget | Stop


@dataclass(slots=True)
class _Answer:
    slot_idx: int
    page_count: int = 0
    pages_written: int = 0


class WorkerMachine:
    """Life of a worker between its messages."""

    def __init__(self) -> None:
        self.configured = False
        self._answers: dict[int, _Answer] = {}

    def receive(self, message: wire.ToWorker) -> list[Action]:
        """Take a message; return what is to be done, in order."""
        if isinstance(message, wire.Setup):
            if self.configured:
                raise AssertionError("a second setup for a running worker")
            self.configured = True
            return [Configure(message)]
        if isinstance(message, wire.Shutdown):
            return [Stop()]
        if not self.configured:
            raise AssertionError(f"{type(message).__name__} before the setup")
        if isinstance(message, wire.SchemaExtended):
            return [TakeSchema(message.schema)]
        if isinstance(message, wire.AttachLayout):
            return [MapLayout(message)]
        if isinstance(message, wire.DropLayout):
            return [UnmapLayout(message.generation)]
        if isinstance(message, wire.Task):
            self._answers[message.task_id] = _Answer(message.slot_idx)
            return [Match(message)]
        if isinstance(message, wire.Forget):
            known = self._answers.pop(message.task_id, None)
            return [] if known is None else [Forget(message.task_id)]
        return self._next_page(message.task_id)

    def matched(self, task_id: int, page_count: int) -> list[Action]:
        """The task's matches are known and need `page_count` pages (at least one)."""
        self._answers[task_id].page_count = page_count
        return self._next_page(task_id)

    def failed(self, task_id: int) -> None:
        """The task ended in an error, which the caller reports."""
        del self._answers[task_id]

    def _next_page(self, task_id: int) -> list[Action]:
        answer = self._answers[task_id]
        page_idx = answer.pages_written
        if page_idx >= answer.page_count:
            raise AssertionError(f"page {page_idx} of {answer.page_count} asked for, task {task_id}")
        answer.pages_written += 1
        more = answer.pages_written < answer.page_count
        actions: list[Action] = [WritePage(task_id, answer.slot_idx, page_idx, more)]
        if not more:
            del self._answers[task_id]
            actions.append(Forget(task_id))
        return actions
