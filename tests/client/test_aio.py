"""The asynchronous client: the same calls as the blocking one's, any number of them at a time, no threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import SILENT, FakeCluster

from pubsub_cluster.client import AsyncClient, Client, Notification
from pubsub_cluster.client.aio import AsyncSession
from pubsub_cluster.client.blocking import run
from pubsub_cluster.language.errors import (
    CallerError,
    DuplicateIdError,
    ProtocolError,
    PubSubError,
    ReplyTimeoutError,
)
from pubsub_cluster.language.protocol import Message, Op, reply_frames


def live(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine, within bounds, and see that it leaves nothing behind."""

    async def bounded() -> None:
        await asyncio.wait_for(coroutine, 90.0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(bounded())


def event(number: int, sequence: int) -> dict[str, Any]:
    return {"event_index": number, "sequence": sequence, "handles": [1], "ids": ["s"], "event": {"x": number}}


def push(cluster: FakeCluster, *numbers: int) -> None:
    """Tell `ann` of events whose indices are their sequences too."""
    cluster.push("ann", publisher="p", batch_id="b", dropped=0, events=[event(n, n) for n in numbers])


# -- the two surfaces ------------------------------------------------------------------------------

OTHER_NAMES = {"__enter__": "__aenter__", "__exit__": "__aexit__"}
OTHER_TYPES = (("AsyncGenerator[", "Iterator["), (", None]", "]"), ("Async", ""))


def surface(kind: type) -> dict[str, Any]:
    public = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    entered = ("__init__", "__enter__", "__exit__", "__aenter__", "__aexit__")
    return public | {name: getattr(kind, name) for name in entered if hasattr(kind, name)}


def test_no_call_of_the_client_is_missing_and_none_is_added() -> None:
    asynchronous = surface(AsyncClient)
    assert {OTHER_NAMES.get(name, name) for name in surface(Client)} == set(asynchronous)


@pytest.mark.parametrize("name", sorted(surface(Client)))
def test_a_call_takes_and_gives_the_same(name: str) -> None:
    blocking, asynchronous = (
        inspect.signature(function)
        for function in (getattr(Client, name), getattr(AsyncClient, OTHER_NAMES.get(name, name)))
    )
    assert list(blocking.parameters) == list(asynchronous.parameters)
    for parameter in blocking.parameters:
        one, other = blocking.parameters[parameter], asynchronous.parameters[parameter]
        assert (one.kind, one.default) == (other.kind, other.default)
        assert plainly(str(one.annotation)) == plainly(str(other.annotation))
    assert plainly(str(blocking.return_annotation)) == plainly(str(asynchronous.return_annotation))
    assert name == "__init__" or getattr(AsyncClient, OTHER_NAMES.get(name, name)).__doc__
    assert "Async" not in str(blocking)


def plainly(annotation: str) -> str:
    for one, other in OTHER_TYPES:
        annotation = annotation.replace(one, other)
    return annotation


@pytest.mark.parametrize("name", sorted(set(surface(AsyncClient)) - {"__init__"}))
def test_each_call_can_be_awaited_or_iterated(name: str) -> None:
    function = getattr(AsyncClient, name)
    assert inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if name in surface(Client):
        blocking = surface(Client)[name]
        assert not inspect.iscoroutinefunction(blocking) and not inspect.isasyncgenfunction(blocking)


def test_the_blocking_client_refuses_to_be_suspended() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        run(asyncio.sleep(0.01))


# -- calls -----------------------------------------------------------------------------------------


def test_many_calls_at_a_time_without_threads(cluster: FakeCluster, tmp_data_dir: Path) -> None:
    async def calls() -> None:
        threads = threading.active_count()
        async with AsyncClient(tmp_data_dir) as client:
            made = await asyncio.gather(*[client.subscribe("x = 1", id=f"s{n}") for n in range(150)])
            assert [one.id for one in made] == [f"s{n}" for n in range(150)]
            answers = await asyncio.gather(*[client.publish([{"x": 1}] * n) for n in range(1, 150)])
            assert [len(one) for one in answers] == list(range(1, 150))
            soon = [await client.publish_soon([{"x": 1}] * n) for n in range(1, 600)]
            assert [len(await one) for one in soon] == list(range(1, 600))
            assert threading.active_count() == threads
            assert client._session.connection.pending_count == 0

    live(calls())


def test_streams_and_errors_are_as_those_of_the_blocking_client(
    cluster: FakeCluster, tmp_data_dir: Path
) -> None:
    async def calls() -> None:
        async with AsyncClient(tmp_data_dir) as client:
            items = [{"expr": "x = 1", "id": f"s{n % 4_999}"} for n in range(5_000)]
            made = [one async for one in client.subscribe_stream(items)]
            assert len(made) == 5_000 and isinstance(made[-1], DuplicateIdError)
            with pytest.raises(DuplicateIdError):
                await client.subscribe("x = 1", id="s0")
            assert await client.unsubscribe_many(["s0", "s1"]) == [None, None]
            batches = [[{"x": 1}] * n for n in (1, 2, 3, 4, 5)]
            assert [len(one) async for one in client.publish_stream(batches, in_flight=2)] == [1, 2, 3, 4, 5]
            stream = client.publish_stream(batches)
            assert len(await anext(stream)) == 1
            await stream.aclose()
            assert client._session.connection.pending_count == 0
            told: list[int] = []
            pending = await client.publish_soon(
                [{}] * 7, on_answer=lambda one: told.append(one._request.finished)
            )
            assert await client.receive(60.0) == 1 and pending.done and told == [True]

    live(calls())


def test_a_cancelled_call_is_forgotten(tmp_data_dir: Path) -> None:
    def silent(_: FakeCluster, message: Message) -> list[Any] | None:
        return SILENT if message.op == Op.PING else None

    async def calls() -> None:
        async with AsyncClient(tmp_data_dir) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.ping(), 0.05)
            assert client._session.connection.pending_count == 0 and not client._session._waiters
            assert len(await client.publish([{}])) == 1

    with FakeCluster(tmp_data_dir, script=silent):
        live(calls())


@pytest.mark.usefixtures("impatient")
def test_silence_a_lost_connection_and_another_life(tmp_data_dir: Path) -> None:
    async def calls() -> None:
        async with AsyncClient(tmp_data_dir, timeout_s=60.0) as client:
            with FakeCluster(tmp_data_dir, life="first"):
                await client.ping()
            waiting = asyncio.create_task(client.publish([{}]))
            while client._session.connection.reconnect_count == 0:
                await asyncio.sleep(0.01)
            assert not waiting.done()
            with FakeCluster(tmp_data_dir, life="second"):
                assert len(await waiting) == 1
        async with AsyncClient(tmp_data_dir, timeout_s=0.3) as client:
            with pytest.raises(ReplyTimeoutError):
                await client.ping()

    live(calls())


def test_closing_ends_what_waits(tmp_data_dir: Path) -> None:
    async def calls() -> None:
        client = AsyncClient(tmp_data_dir, timeout_s=60.0)
        await client.hello()
        listener = await client.listen("ann")
        waiting = [asyncio.create_task(one) for one in (client.ping(), client.receive(60.0))]
        hearing = asyncio.create_task(anext(listener, None))
        await asyncio.sleep(0.05)
        await client.close()
        for one in waiting:
            with pytest.raises(PubSubError, match="closed"):
                await one
        assert await hearing is None
        with pytest.raises(PubSubError, match="closed"):
            await client.ping()

    def script(_: FakeCluster, message: Message) -> list[Any] | None:
        return SILENT if message.op == Op.PING else None

    with FakeCluster(tmp_data_dir, script=script):
        live(calls())


def test_nonsense_at_the_endpoint_is_an_error_of_whoever_waits(tmp_data_dir: Path) -> None:
    def script(_: FakeCluster, message: Message) -> list[Any] | None:
        return [b"HTTP", b"{}"] if message.op == Op.PING else None

    async def calls() -> None:
        async with AsyncClient(tmp_data_dir) as client:
            with pytest.raises(ProtocolError):
                await client.ping()

    with FakeCluster(tmp_data_dir, script=script):
        live(calls())


def test_it_belongs_to_one_event_loop(cluster: FakeCluster, tmp_data_dir: Path) -> None:
    client = AsyncClient(tmp_data_dir)
    asyncio.run(client.ping())
    with pytest.raises(CallerError, match="event loop"):
        asyncio.run(client.ping())
    asyncio.run(client.close())


@pytest.mark.usefixtures("impatient")
def test_it_does_not_spin(cluster: FakeCluster, tmp_data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [0]
    take_turn = AsyncSession._take_turn

    def counted(session: AsyncSession) -> None:
        turns[0] += 1
        take_turn(session)

    monkeypatch.setattr(AsyncSession, "_take_turn", counted)

    async def calls() -> None:
        async with AsyncClient(tmp_data_dir) as client, await client.listen("ann", timeout_s=0.5) as listener:
            assert [one async for one in listener] == []
            assert turns[0] < 60

    live(calls())


# -- listening -------------------------------------------------------------------------------------


def test_a_listener_hears_while_others_call(cluster: FakeCluster, tmp_data_dir: Path) -> None:
    async def calls() -> None:
        async with (
            AsyncClient(tmp_data_dir) as client,
            await client.listen("ann", timeout_s=60.0) as listener,
        ):

            async def hear() -> list[int]:
                return [(await anext(listener)).event_index for _ in range(4)]

            hearing = asyncio.create_task(hear())
            for number in range(4):
                push(cluster, number)
                await client.publish([{"x": number}])
            assert await hearing == [0, 1, 2, 3]
            listener.timeout_s = 0.05
            assert [one async for one in listener] == []
        assert cluster.ops()[-1] == Op.UNLISTEN

    live(calls())


def test_a_function_is_called_and_awaited(cluster: FakeCluster, tmp_data_dir: Path) -> None:
    async def calls() -> None:
        heard: list[int] = []

        async def slow(notification: Notification) -> None:
            await asyncio.sleep(0.01)
            heard.append(notification.event_index)
            if notification.event_index == 2:
                raise ValueError("enough")

        async with AsyncClient(tmp_data_dir) as client:
            listener = await client.listen("ann", on_notification=slow)
            push(cluster, 0, 1, 2, 3)
            with pytest.raises(ValueError, match="enough"):
                await listener.ended()
            assert heard == [0, 1, 2] and listener.closed
            again = await client.listen("ann", on_notification=lambda one: heard.append(one.event_index))
            push(cluster, 0)
            while len(heard) < 4:
                await asyncio.sleep(0.01)
            await again.close()
            await again.ended()

    live(calls())


def test_a_durable_receiver_acknowledges_what_was_dealt_with(tmp_data_dir: Path) -> None:
    def durable(_: FakeCluster, message: Message) -> list[Any] | None:
        if message.op != Op.LISTEN:
            return None
        told = {"owner": "ann", "durable": "x", "number": 7, "sequence": 1}
        return reply_frames(message.request, told)

    async def calls() -> None:
        heard: list[int] = []

        async def deal(notification: Notification) -> None:
            await asyncio.sleep(0)
            heard.append(notification.sequence)
            if notification.sequence == 3:
                raise ValueError("not this one")

        async with AsyncClient(tmp_data_dir) as client:
            listener = await client.listen("ann", durable="x", on_notification=deal)
            events = [event(n, n) for n in (1, 2, 3, 4)]
            cluster.push("ann", durable="x", publisher="p", batch_id="b", dropped=0, events=events)
            with pytest.raises(ValueError, match="not this one"):
                await listener.ended()
            await client.ping()
        said = [message.header["sequence"] for message in cluster.seen if message.op == Op.ACKNOWLEDGE]
        assert heard == [1, 2, 3] and said[-1] == 2

    with FakeCluster(tmp_data_dir, script=durable) as cluster:
        live(calls())


def test_a_blocking_client_calls_a_function_from_within_its_calls(
    cluster: FakeCluster, client: Client
) -> None:
    heard: list[int] = []

    def hear(notification: Notification) -> None:
        client.ping()  # it may use the client; what comes meanwhile is told after it
        heard.append(notification.event_index)

    listener = client.listen("ann", on_notification=hear)
    push(cluster, 0, 1)
    push(cluster, 2)
    told_count = 0
    while told_count < 3:
        told_count += client.receive(60.0)
    assert heard == [0, 1, 2]
    push(cluster, 3)
    for _ in range(20):
        client.ping()
    assert heard == [0, 1, 2, 3] and client.receive() == 0
    listener.close()
    assert listener.closed


def test_a_function_that_raises_ends_the_call_it_is_called_from_alone(
    cluster: FakeCluster, client: Client
) -> None:
    heard: list[int] = []

    def hear(notification: Notification) -> None:
        heard.append(notification.event_index)
        if notification.event_index == 0:
            raise ValueError("not this one")

    with client.listen("ann", on_notification=hear):
        push(cluster, 0, 1)
        with pytest.raises(ValueError, match="not this one"):
            client.receive(60.0)
        assert client.receive(60.0) == 1 and heard == [0, 1]


@pytest.mark.usefixtures("impatient")
def test_receiving_notices_a_cluster_that_is_gone_or_came_again(tmp_data_dir: Path, client: Client) -> None:
    heard: list[int] = []
    with FakeCluster(tmp_data_dir):
        client.hello()
        client._session.timeout_s = 0.5
        client.listen("ann", on_notification=lambda one: heard.append(one.event_index))
    with pytest.raises(ReplyTimeoutError, match="listening for `ann`"):
        for _ in range(1_000):
            client.receive(0.05)
    with FakeCluster(tmp_data_dir, life="second") as cluster:
        while Op.LISTEN not in cluster.ops():
            with suppress(ReplyTimeoutError):  # it may find the new life later than its time limit
                client.receive(0.05)
        while not heard:  # it may have got another connection meanwhile
            push(cluster, 0)
            with suppress(ReplyTimeoutError):
                client.receive(0.2)
        assert heard == [0]


def test_answers_of_a_kind_that_nobody_asked_for_are_strays(cluster: FakeCluster, tmp_data_dir: Path) -> None:
    async def calls() -> None:
        async with AsyncClient(tmp_data_dir) as client:
            await client.ping()
            cluster.later(reply_frames("nobody's", {}))
            while client._session.connection.stray_count == 0:  # taken in though nobody waits
                await asyncio.sleep(0.01)
            assert client._session.connection.stray_count == 1

    live(calls())
