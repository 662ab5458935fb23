"""Requests that change the catalogue, from arrival to the durable answer.

A request may carry thousands of items. They are staged in slices between which the coordinator serves
its other sockets, one connection after the other, handed to the store as groups, and applied in order
when the store reports them durable. A request is answered when its last group is; a bad item has its
error in the answer and leaves the others good. An item that is refused because of a change that is still
on its way ("this id exists") shares that change's fate: the refusal is not told before it is true.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pubsub_cluster.coordinator.answers import defect
from pubsub_cluster.coordinator.origins import Recalled, origin_of
from pubsub_cluster.coordinator.pace import Pace
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.retained import RetainedDesk
from pubsub_cluster.coordinator.store import ChangeStore, Committed
from pubsub_cluster.language.errors import (
    BusyError,
    DuplicateIdError,
    LimitError,
    ProtocolError,
    PubSubError,
    StoreError,
    UnknownIdError,
)
from pubsub_cluster.language.protocol import RETAINED_TOLD_MAX, Op
from pubsub_cluster.shm.change_groups import Change

SLICE_S = 0.0025  # of work: others wait for a bulk load so long, and about as long until it is in force
SLICE_ITEMS_LEAST, SLICE_ITEMS_MOST = 256, 1_024
FIRST_SHARE, SHARE = 0.25, 0.5  # of the coordinator's time, beside other work
GROUPS_OUTSTANDING_MAX = 64
CHANGES_OUTSTANDING_MAX = 16_384
APPLIED_MOST = 1_024  # in one go, of what a slow disk reports at once: some milliseconds for everybody else
REQUESTS_MAX = 1_024
REQUESTS_PER_CONNECTION_MAX = 64
ITEMS_WAITING_MAX = 500_000
RETRY_AFTER_S = 0.1
log = logging.getLogger("pubsub_cluster.coordinator")


@dataclass(slots=True)
class ChangeRequest:
    """A request being worked on."""

    key: tuple[str, ...]
    op: Op
    items: list[Any]
    position: int = 0
    outstanding: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)
    told_max: int = 0
    made: list[tuple[int, Change]] = field(default_factory=list)  # new subscriptions, by their results

    @property
    def finished(self) -> bool:
        """Everything is staged and no group is on its way."""
        return self.position == len(self.items) and not self.outstanding


@dataclass(slots=True)
class _Group:
    request: ChangeRequest
    first_result: int
    result_count: int
    change_count: int
    dependents: list[tuple[ChangeRequest, int]] = field(default_factory=list)


class ChangeDesk:
    """Stages, commits and applies changes.

    Parameters
    ----------
    registry : Registry
    store : ChangeStore
    answer : callable
        ``answer(request_key, fields)`` sends the reply of a finished request.
    retained : RetainedDesk, optional
        Asked about new subscriptions.
    recalled : Recalled, optional
        Asked about requests of the lives before.
    is_in_use : callable, optional
        Tells whether anybody publishes at a moment; see `Pace`.
    """

    def __init__(
        self,
        registry: Registry,
        store: ChangeStore,
        answer: Callable[[tuple[str, ...], dict[str, Any]], None],
        retained: RetainedDesk | None = None,
        recalled: Recalled | None = None,
        is_in_use: Callable[[float], bool] = lambda now_s: True,
    ) -> None:
        self._registry = registry
        self._store = store
        self._retained = retained
        self._recalled = recalled
        self._answer = answer
        self._queues: OrderedDict[bytes, deque[ChangeRequest]] = OrderedDict()
        self._request_count = self._item_count = 0
        self._groups: dict[int, _Group] = {}
        self._change_count = 0  # of these groups
        self._reports: deque[Committed] = deque()
        self._failed = False
        # By kind: a slice of insertions as large as one of removals takes several times as long.
        self._slice_items = dict.fromkeys(Op, SLICE_ITEMS_LEAST)
        self._pace = Pace(FIRST_SHARE, SHARE, is_in_use)

    def submit(self, identity: bytes, key: tuple[str, ...], op: Op, items: Any, told_max: Any = 0) -> None:
        """Take a request of a connection; a new subscription is told `told_max` retained events at most.

        Raises
        ------
        ProtocolError, LimitError
            The list is none, or too long; nothing is changed.
        BusyError
            Too many requests wait already, of this connection or of all.
        """
        if type(told_max) is not int or not 0 <= told_max <= RETAINED_TOLD_MAX:
            raise ProtocolError(
                "`retained` is the number of retained events that each new subscription is told",
                seen=told_max,
                limit=f"0 to {RETAINED_TOLD_MAX}",
            )
        if not isinstance(items, list):
            raise ProtocolError("the items of a change are a JSON list", seen=type(items).__name__)
        limit = self._registry.limits.subscriptions_per_request_max
        if len(items) > limit:
            raise LimitError(
                "too many changes in one request",
                seen=len(items),
                limit=limit,
                remedy="Split the request.",
                limit_name="subscriptions_per_request_max",
            )
        waiting = len(self._queues.get(identity, ()))
        full = self._request_count >= REQUESTS_MAX or self._item_count + len(items) > ITEMS_WAITING_MAX
        if full or waiting >= REQUESTS_PER_CONNECTION_MAX:
            raise BusyError(
                "too many requests to change the catalogue wait",
                seen=max(waiting, self._request_count),
                limit=REQUESTS_PER_CONNECTION_MAX,
                remedy="Send again after `retry_after_s`, with fewer requests in flight.",
                retry_after_s=RETRY_AFTER_S,
            )
        self._queues.setdefault(identity, deque()).append(ChangeRequest(key, op, items, told_max=told_max))
        self._request_count += 1
        self._item_count += len(items)

    @property
    def idle(self) -> bool:
        """Nothing waits, is staged or on its way to the disk."""
        return not self._queues and not self._groups and (self._retained is None or self._retained.idle)

    @property
    def busy(self) -> bool:
        """There is something to stage now."""
        is_full = len(self._groups) >= GROUPS_OUTSTANDING_MAX or self._change_count >= CHANGES_OUTSTANDING_MAX
        return bool(self._queues) and not self._failed and not is_full

    def is_due(self, now_s: float, others_wait: bool) -> bool:
        """Tell whether it is the turn of changes; see `Pace.rest_s`."""
        return not self._pace.rest_s(now_s, others_wait)

    def wait_s(self, now_s: float) -> float:
        """Return when there is something to stage or to apply, in seconds from a moment on."""
        return self._pace.rest_s(now_s, False) if self.busy or self.reported else math.inf

    def work(self) -> None:
        """Stage one slice of the next connection's oldest request and hand it to the store."""
        if self.busy:
            self._pace.begin()
            self._work()
            self._pace.end()

    def _work(self) -> None:
        identity, queue = next(iter(self._queues.items()))
        self._queues.move_to_end(identity)
        request = queue[0]
        if not self._recall_slice(request):
            begin_s, first = time.thread_time(), request.position
            self._stage_slice(request)
            if request.position - first == self._slice_items[request.op]:
                self._fit_slices(request.op, time.thread_time() - begin_s)
        if request.position == len(request.items):
            queue.popleft()
            self._request_count -= 1
            self._item_count -= len(request.items)
            if not queue:
                del self._queues[identity]
            if request.finished:
                self._finish(request)

    def _recall_slice(self, request: ChangeRequest) -> bool:
        """Answer a slice that was made durable in a life before, if it was."""
        if self._recalled is None:
            return False
        left = len(request.items) - request.position
        try:
            known = self._recalled.results(request.op.value, request.key[-1], request.position)
        except PubSubError as error:  # whatever was carried out, nothing of it is a second time
            log.error("a request that was sent again is refused: %s", error)
            known = [{"ok": False, "error": _unknown_fate(error).to_dict()}] * left
        if not known or len(known) > left:
            return False
        request.results += known
        request.position += len(known)
        return True

    def _fit_slices(self, op: Op, took_s: float) -> None:
        """Let slices grow or shrink with what the last full one took, at most by half of their size."""
        fitting = self._slice_items[op] * min(max(SLICE_S / max(took_s, SLICE_S / 2), 0.5), 1.5)
        self._slice_items[op] = min(max(int(fitting), SLICE_ITEMS_LEAST), SLICE_ITEMS_MOST)

    def _stage_slice(self, request: ChangeRequest) -> None:
        first_result = len(request.results)
        changes: list[Change] = []
        unsure: list[int] = []  # results that were judged against changes which are not durable yet
        stop = min(request.position + self._slice_items[request.op], len(request.items))
        if self._recalled is not None:
            stop = self._recalled.stop_before_known(request.op.value, request.key[-1], request.position, stop)
        for staged in self._registry.stage_many(request.op, request.items[request.position : stop]):
            if isinstance(staged, tuple):
                change, result = staged
                changes.append(change)
                if request.told_max and request.op is Op.SUBSCRIBE:
                    request.made.append((len(request.results), change))
            elif isinstance(staged, PubSubError):
                result = {"ok": False, "error": staged.to_dict()}
                if isinstance(staged, DuplicateIdError | UnknownIdError) and (self._groups or changes):
                    unsure.append(len(request.results))
            else:  # a defect of ours must not take the other items with it
                log.error("a change failed", exc_info=staged)
                result = {"ok": False, "error": defect("the change failed", staged).error_body()}
            request.results.append(result)
        first_item, request.position = request.position, stop
        group: _Group | None = None
        if changes:
            group = _Group(request, first_result, len(request.results) - first_result, len(changes))
            request.outstanding += 1
            self._change_count += len(changes)
            # Cannot be full: GROUPS_OUTSTANDING_MAX is below the store's bound.
            results = request.results[first_result:]
            is_good = len(results) == len(changes)
            origin = origin_of(request.op.value, request.key[-1], first_item, results, is_good)
            self._groups[self._store.commit(changes, origin)] = group
        elif unsure and self._groups:
            group = next(reversed(self._groups.values()))
        if group is not None:
            group.dependents += [(request, result_idx) for result_idx in unsure]
            request.outstanding += len(unsure)

    def hear(self) -> None:
        """Listen to the store; `committed` takes what it has said."""
        self._reports += self._store.poll()

    @property
    def reported(self) -> bool:
        """The store has reported more than `committed` has taken."""
        return bool(self._reports)

    def committed(self, most: float = APPLIED_MOST) -> bool:
        """Take reports of the store, of `most` changes or one group; tell whether the catalogue changed."""
        self._pace.begin()
        is_changed = self._committed(most)
        self._pace.end()
        return is_changed

    def _committed(self, most: float) -> bool:
        self.hear()
        reports = self._next_reports(most)
        durable = [self._groups[report.group_id].change_count for report in reports if report.error is None]
        if durable:  # all at once: what a call costs whatever it brings is much for a slice
            self._registry.apply(sum(durable))
        for report in reports:
            group = self._groups.pop(report.group_id)
            self._change_count -= group.change_count
            group.request.outstanding -= 1
            if report.error is not None:
                self._failed = True
                self._refuse(group, report.error)
            asked = {id(group.request): group.request}
            for request, result_idx in group.dependents:
                request.outstanding -= 1
                asked[id(request)] = request
                if report.error is not None:
                    request.results[result_idx] = {"ok": False, "error": report.error.to_dict()}
            for request in asked.values():
                if request.finished:
                    self._finish(request)
        if self._failed and not self._groups:
            self._registry.rollback()
            self._store.resume()
            self._failed = False
        return bool(durable)

    def _next_reports(self, most: float) -> list[Committed]:
        reports: list[Committed] = []
        while self._reports:
            most -= self._groups[self._reports[0].group_id].change_count
            if reports and most < 0:
                break
            reports.append(self._reports.popleft())
        return reports

    def _refuse(self, group: _Group, error: StoreError) -> None:
        results = group.request.results
        for idx in range(group.first_result, group.first_result + group.result_count):
            if results[idx]["ok"]:
                results[idx] = {"ok": False, "error": error.to_dict()}

    def _finish(self, request: ChangeRequest) -> None:
        fields = {"results": request.results, "version": self._registry.version}
        if request.made and self._retained is not None and self._retained.active:
            answer = functools.partial(self._answer, request.key, fields)
            self._retained.ask(request.made, request.results, request.told_max, answer)
        else:
            self._answer(request.key, fields)


def _unknown_fate(error: PubSubError) -> StoreError:
    return StoreError(
        "what this request did before the restart cannot be told",
        seen=str(error),
        remedy="Ask for its subscriptions (`describe`, `list`), and send what is missing as a new request.",
    )
