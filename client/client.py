"""The blocking client: subscribe, publish, listen and look after a cluster, from one thread.

Its calls are those of `pubsub_cluster.client.calls`, which says what each does, run to their end.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from pubsub_cluster.client.blocking import each, run
from pubsub_cluster.client.calls import AnswerName, Calls, endpoint_of, soon
from pubsub_cluster.client.durable import DurableListener
from pubsub_cluster.client.listener import Listener
from pubsub_cluster.client.notifications import Notification, check_owner
from pubsub_cluster.client.pending import Pending
from pubsub_cluster.client.publishing import Batch
from pubsub_cluster.client.session import Session
from pubsub_cluster.language.protocol import UNMATCHED, WINDOW_DEFAULT

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    call: Callable[Concatenate[Calls, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Client, P], R]:
    @functools.wraps(call)
    def blocking(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(call(self._calls, *args, **kwargs))

    return blocking


def _iterating(
    call: Callable[Concatenate[Calls, P], AsyncGenerator[R, None]],
) -> Callable[Concatenate[Client, P], Iterator[R]]:
    @functools.wraps(call)
    def iterating(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return each(call(self._calls, *args, **kwargs))

    signature = inspect.signature(call)
    told = signature.return_annotation.replace("AsyncGenerator[", "Iterator[").replace(", None]", "]")
    iterating.__dict__["__signature__"] = signature.replace(return_annotation=told)  # for `help`
    return iterating


class Client:
    """A connection to a running cluster.

    Parameters
    ----------
    data_dir : path, optional
        The cluster's data directory; `pubsub_cluster.language.paths.default_data_dir` without it.
    endpoint : str, optional
        A ZeroMQ endpoint instead.
    timeout_s : float
        How long each call may take, repeats and pauses included.
    publisher : str, optional
        Name under which batches are published; unique to this client without it.
    notified_by : {"auto", "pubsub", "unicast"}
        How listeners are told: by what is cheapest (shared memory on one host), by messages to groups, or
        only by messages of their own.

    Notes
    -----
    Nothing is sent before the first call. Not for use by several threads at once.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        endpoint: str | None = None,
        timeout_s: float = 10.0,
        publisher: str | None = None,
        notified_by: str = "auto",
    ) -> None:
        self._session = Session(endpoint_of(data_dir, endpoint), timeout_s, notified_by)
        self._calls = Calls(self._session, publisher)
        self.publisher = self._calls.publisher

    def __enter__(self) -> Client:
        """Return the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; listeners end, and what is still unanswered ends with an error."""
        self._session.close()

    subscribe = _blocking(Calls.subscribe)
    subscribe_many = _blocking(Calls.subscribe_many)
    subscribe_stream = _iterating(Calls.subscribe_stream)
    update = _blocking(Calls.update)
    update_many = _blocking(Calls.update_many)
    unsubscribe = _blocking(Calls.unsubscribe)
    unsubscribe_many = _blocking(Calls.unsubscribe_many)
    describe_many = _blocking(Calls.describe_many)
    subscriptions = _iterating(Calls.subscriptions)

    publish = _blocking(Calls.publish)
    publish_stream = _iterating(Calls.publish_stream)
    receive = _blocking(Calls.receive)
    forget = _blocking(Calls.forget)

    hello = _blocking(Calls.hello)
    ping = _blocking(Calls.ping)
    status = _blocking(Calls.status)
    stats = _blocking(Calls.stats)
    tune_show = _blocking(Calls.tune_show)
    tune_now = _blocking(Calls.tune_now)
    tune_set = _blocking(Calls.tune_set)
    tune_freeze = _blocking(Calls.tune_freeze)
    tune_import_statistics = _blocking(Calls.tune_import_statistics)
    tune_clear_statistics = _blocking(Calls.tune_clear_statistics)
    backup = _blocking(Calls.backup)
    restore = _blocking(Calls.restore)
    verify = _blocking(Calls.verify)
    schema_show = _blocking(Calls.schema_show)
    schema_add_domain = _blocking(Calls.schema_add_domain)
    schema_add_attribute = _blocking(Calls.schema_add_attribute)
    schema_extend_type = _blocking(Calls.schema_extend_type)
    schema_add_type = _blocking(Calls.schema_add_type)
    resize = _blocking(Calls.resize)
    stop_cluster = _blocking(Calls.stop_cluster)

    def publish_soon(
        self,
        batch: Batch,
        *,
        answer: AnswerName = "handles",
        ids: bool = False,
        batch_id: str | None = None,
        at: int | None = None,
        valid_until: int | None = None,
        on_answer: Callable[[Pending], None] | None = None,
    ) -> Pending:
        """Publish a batch without waiting for its answer.

        The batch is on its way when this returns. Its answer is taken in by `receive`, by `Pending.result`,
        or while any other call waits. With `PENDING_MAX` unanswered, this first waits for one of them.

        Parameters
        ----------
        batch, answer, ids, batch_id, at, valid_until
            As for `publish`. An array must not change before its batch is answered.
        on_answer : callable, optional
            Called once with the result of this call, answered or failed, from within the call that takes the
            answer in (or from `close`); it may publish in its turn. What it raises, that call raises.

        Raises
        ------
        LimitError, EventError, ReplyTimeoutError
            It cannot be sent. What the cluster says of it is raised by `Pending.result`.
        """
        return run(
            soon(
                self._calls,
                Pending,
                on_answer,
                batch,
                answer=answer,
                ids=ids,
                batch_id=batch_id,
                at=at,
                valid_until=valid_until,
            )
        )

    @overload
    def listen(
        self,
        owner: str,
        *,
        timeout_s: float | None = None,
        on_silence: Callable[[], None] | None = None,
        on_return: Callable[[], None] | None = None,
        on_notification: Callable[[Notification], object] | None = None,
        durable: None = None,
    ) -> Listener: ...

    @overload
    def listen(
        self,
        owner: str,
        *,
        timeout_s: float | None = None,
        on_silence: Callable[[], None] | None = None,
        on_return: Callable[[], None] | None = None,
        on_notification: Callable[[Notification], object] | None = None,
        durable: str,
        window: int = WINDOW_DEFAULT,
        by_hand: bool = False,
    ) -> DurableListener: ...

    def listen(
        self,
        owner: str,
        *,
        timeout_s: float | None = None,
        on_silence: Callable[[], None] | None = None,
        on_return: Callable[[], None] | None = None,
        on_notification: Callable[[Notification], object] | None = None,
        durable: str | None = None,
        window: int = WINDOW_DEFAULT,
        by_hand: bool = False,
    ) -> Listener:
        """Listen for the events that an owner's subscriptions match.

        The cluster has registered the listener when this returns: no later batch is missed. Iterate over the
        result; it ends after `timeout_s` without a notification (None: never). Close it to stop, or use it as
        a context manager. A cluster that falls silent is an error, unless `on_silence` is there to be called,
        once for each silence: then the listener waits until the cluster is back, and calls `on_return`.

        With `on_notification`, do not iterate: it is called with each notification, from within `receive` and
        any other call that waits. What it raises, that call raises; it may use the client.

        With `durable`, a name, the owner's notifications are kept from the first such call on, whether or not
        anybody listens, until they are acknowledged (`docs/delivery.md`): each comes at least once, over
        disconnections and restarts. `DurableListener` acknowledges one when the next is asked for (or when
        `on_notification` has returned), or else `by_hand`; `window` are sent unacknowledged. Of several
        connections under one name the latest has them.
        """
        check_owner(owner)
        kind: Callable[..., Listener] = Listener
        if durable is not None:
            kind = partial(DurableListener, durable, window, by_hand, self._session.acknowledge)
        listening = self._session.listen(
            kind, owner, timeout_s, on_silence, on_return, on_notification, durable
        )
        return run(listening)

    def listen_unmatched(
        self,
        *,
        timeout_s: float | None = None,
        on_silence: Callable[[], None] | None = None,
        on_return: Callable[[], None] | None = None,
        on_notification: Callable[[Notification], object] | None = None,
    ) -> Listener:
        """Listen for events that match nobody, else as `listen`.

        The cluster sends a few thousand a second at most; what is beyond that is counted
        (`Notification.dropped`).
        """
        return run(
            self._session.listen(Listener, UNMATCHED, timeout_s, on_silence, on_return, on_notification)
        )
