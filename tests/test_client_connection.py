"""The client's state machine, without sockets and with an invented clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.client.connection import NOTHING, RESENDS_MAX, Connection, Instructions, Request
from pubsub_cluster.client.watch import GREETED_SHARE, HEARTBEAT_S, Watch
from pubsub_cluster.language.errors import BusyError, LimitError, ProtocolError, ReplyTimeoutError
from pubsub_cluster.language.protocol import Buffer, Op, error_frames, parse_message, reply_frames

SILENCE_S = 2.0


def connected(life: str = "a") -> Connection:
    connection = Connection("me", "ipc:///x", SILENCE_S)
    greet(connection, connection.probe(0.0), life, 0.0)
    return connection


def greet(connection: Connection, instructions: Instructions, life: str, now_s: float) -> Instructions:
    """Answer the one greeting among the instructions."""
    hellos = [m for m in map(parse_message, instructions.send) if m.op == Op.HELLO]
    assert len(hellos) == 1
    return connection.receive(reply_frames(hellos[0].request, {"cluster_id": "c", "life": life}), now_s)


def ask(connection: Connection, now_s: float = 0.0, timeout_s: float = 60.0) -> Request:
    request, instructions = connection.submit(Op.PING, {}, [], now_s, timeout_s)
    assert instructions.send == [request.frames]
    return request


def ops(instructions: Instructions) -> list[str]:
    return [parse_message(frames).op for frames in instructions.send]


def test_an_answer_finishes_its_request_and_no_other() -> None:
    connection = connected()
    first, second = ask(connection), ask(connection)
    connection.receive(reply_frames(second.request_id, {"n": 2}), 0.1)
    assert not first.finished
    assert second.reply is not None and second.reply.header["n"] == 2
    connection.receive(error_frames(first.request_id, LimitError("no")), 0.1)
    assert isinstance(first.error, LimitError)
    assert connection.pending_count == 0


def test_request_ids_never_repeat() -> None:
    connection = connected()
    assert len({ask(connection).request_id for _ in range(100)}) == 100


def test_silence_makes_the_client_ask_before_it_sends_again() -> None:
    connection = connected()
    request = ask(connection)
    assert connection.wake_at_s() == SILENCE_S
    assert ops(connection.tick(SILENCE_S - 0.01)) == []
    probe = connection.tick(SILENCE_S)
    assert ops(probe) == ["hello"], "a batch of megabytes is not sent to a cluster that may be gone"
    assert greet(connection, probe, "a", 2.1).send == [], "the cluster is there and works on it"
    probe = connection.tick(3 * SILENCE_S)
    assert greet(connection, probe, "a", 6.1).send == [request.frames], "but not for ever"
    assert not request.crossed_lives


def test_a_request_is_sent_again_a_bounded_number_of_times() -> None:
    connection = connected()
    request = ask(connection, timeout_s=1e9)
    sent_count = 0
    now_s = 0.0
    while now_s < 2_000.0:
        wake_s = connection.wake_at_s()
        assert wake_s is not None and wake_s > now_s, "time moves on"
        now_s = wake_s
        instructions = connection.tick(now_s)
        if instructions.send:
            sent_count += greet(connection, instructions, "a", now_s).send.count(request.frames)
    assert sent_count == RESENDS_MAX


def test_another_life_gets_everything_again_at_once() -> None:
    connection = connected("a")
    connection.set_listening({"owner": "me"}, True)
    first, second = ask(connection), ask(connection)
    again = greet(connection, connection.tick(SILENCE_S), "b", 2.1)
    assert ops(again) == ["listen", "ping", "ping"]
    assert again.send[1:] == [first.frames, second.frames]
    assert first.crossed_lives and second.crossed_lives


def test_a_listener_notices_another_life_however_much_is_answered() -> None:
    """Answers do not tell which life they are from: greetings do, and are due all the same."""
    connection = connected("a")
    connection.set_listening({"owner": "me"}, True)
    watch = Watch(connection, ("me", None), 60.0, None)
    greeted_at_s = []
    for step in range(1, 100):
        now_s = step / 10
        connection.receive(reply_frames(ask(connection, now_s).request_id, {}), now_s)
        due = watch.look(now_s)
        if due.send:
            greeted_at_s.append(now_s)
            again = greet(connection, due, "a" if now_s < 5.0 else "b", now_s)
            assert ops(again) == (["listen"] if len(greeted_at_s) == 4 else [])
    assert greeted_at_s == [GREETED_SHARE * HEARTBEAT_S * turn for turn in range(1, 7)]


@pytest.mark.parametrize("timeout_s", [0.5, HEARTBEAT_S, 60.0])
def test_a_quiet_cluster_that_answers_greetings_is_there(timeout_s: float) -> None:
    connection = connected("a")
    told: list[None] = []
    watches = [Watch(connection, ("me", None), timeout_s, each) for each in (None, lambda: told.append(None))]
    for turn in range(1, 40):
        now_s = turn * (HEARTBEAT_S + 0.001)  # whoever waits wakes a little later than at the time asked for
        due = [watch.look(now_s) for watch in watches]
        sent = [one for one in due if one.send]
        assert len(sent) == 1, "one greeting serves both"
        greet(connection, sent[0], "a", now_s + 0.0015)
    assert not told


def test_a_greeting_without_an_answer_is_told_once_or_raised() -> None:
    connection = connected("a")
    told: list[None] = []
    patient = Watch(connection, ("me", None), 60.0, lambda: told.append(None))
    other = Watch(connection, ("me", None), 1.0, None)
    for watch in (patient, other):
        watch.look(HEARTBEAT_S)
    assert not told
    for turn in (2, 3):
        patient.look(turn * HEARTBEAT_S)
    assert len(told) == 1
    with pytest.raises(ReplyTimeoutError, match="listening for `me`"):
        other.look(3 * HEARTBEAT_S)
    other.look(3.1 * HEARTBEAT_S)  # whoever waits once more waits as long again


def test_the_end_of_a_silence_that_was_told_is_told() -> None:
    connection = connected("a")
    told: list[str] = []
    watch = Watch(connection, ("me", None), 60.0, lambda: told.append("gone"), lambda: told.append("back"))
    asked = NOTHING
    for turn in range(1, 12):
        now_s = turn * (HEARTBEAT_S + 0.001)
        due = watch.look(now_s)
        asked = due if due.send else asked
        if turn in (4, 5, 9):
            greet(connection, asked, "a", now_s + 0.0015)
    assert told == ["gone", "back", "gone", "back", "gone"]


def test_an_unanswered_greeting_means_a_new_connection() -> None:
    connection = connected("a")
    connection.set_listening({"owner": "me"}, True)
    request = ask(connection)
    connection.tick(SILENCE_S)
    instructions = connection.tick(2 * SILENCE_S)
    assert instructions.reconnect and ops(instructions) == ["hello"]
    late, nothing_yet = connection.submit(Op.PING, {}, [], 4.0, 60.0)
    assert nothing_yet.send == [], "what is new waits for the greeting"
    again = greet(connection, instructions, "a", 4.1)
    assert ops(again) == ["listen", "ping", "ping"]
    assert again.send[1:] == [request.frames, late.frames]
    assert not request.crossed_lives


def test_new_connections_are_tried_until_the_deadline() -> None:
    connection = connected()
    request = ask(connection, timeout_s=10.0)
    now_s = 0.0
    while not request.finished:
        wake_s = connection.wake_at_s()
        assert wake_s is not None and wake_s > now_s
        now_s = wake_s
        connection.tick(now_s)
    assert now_s == 10.0
    assert isinstance(request.error, ReplyTimeoutError)
    assert "pubsub-cluster status" in str(request.error)
    assert request.error.fields["reconnect_count"] == 3


def test_busy_is_sent_again_after_the_pause_that_was_asked_for() -> None:
    connection = connected()
    request = ask(connection)
    connection.receive(error_frames(request.request_id, BusyError("full", retry_after_s=0.5)), 1.0)
    assert not request.finished
    assert connection.wake_at_s() == 1.5
    assert connection.tick(1.4).send == []
    assert connection.tick(1.5).send == [request.frames]
    connection.receive(reply_frames(request.request_id, {}), 1.6)
    assert request.reply is not None


def test_busy_until_after_the_deadline_is_the_answer() -> None:
    connection = connected()
    request = ask(connection, timeout_s=1.0)
    connection.receive(error_frames(request.request_id, BusyError("full", retry_after_s=5)), 0.1)
    assert isinstance(request.error, BusyError)


def test_strays_are_counted_and_dropped() -> None:
    connection = connected()
    request = ask(connection)
    connection.forget(request)
    connection.receive(reply_frames(request.request_id, {}), 0.1)
    connection.receive(reply_frames("someone-else", {}), 0.1)
    assert connection.stray_count == 2
    assert not request.finished


def test_a_refused_greeting_is_the_answer_to_everything() -> None:
    connection = Connection("me", "ipc:///x", SILENCE_S)
    hello = parse_message(connection.probe(0.0).send[0])
    connection.receive(error_frames(hello.request, ProtocolError("another version")), 0.1)
    assert isinstance(connection.hello_error, ProtocolError)


def test_a_refused_second_registration_is_told_to_its_listener() -> None:
    connection = connected("a")
    connection.set_listening({"owner": "me"}, True)
    again = greet(connection, connection.probe(5.0), "b", 5.1)
    listen = parse_message(again.send[0])
    connection.receive(error_frames(listen.request, LimitError("too many listeners")), 5.2)
    assert isinstance(connection.listen_errors["me", None], LimitError)


@pytest.mark.parametrize("frames", [[b"HTTP/1.1 400"], [b"PSC1", b'{"op":"hello","request":"x"}']])
def test_something_else_at_the_endpoint_is_said(frames: list[Buffer]) -> None:
    with pytest.raises(ProtocolError):
        connected().receive(frames, 0.0)


@given(st.lists(st.tuples(st.sampled_from("rbhHt"), st.floats(0.001, 5.0)), max_size=60))
def test_every_request_is_finished_by_its_deadline(steps: list[tuple[str, float]]) -> None:
    """Replies, refusals, greetings of this and another life, and time, in any order."""
    connection = connected("a")
    now_s, life = 0.0, "a"
    requests: list[Request] = []
    hello: str | None = None
    for step, pause_s in steps:
        now_s += pause_s
        requests.append(connection.submit(Op.PING, {}, [], now_s, 10.0)[0])
        oldest = next((r for r in requests if not r.finished), None)
        instructions = Instructions()
        if step == "r" and oldest is not None:
            instructions = connection.receive(reply_frames(oldest.request_id, {}), now_s)
        elif step == "b" and oldest is not None:
            busy = BusyError("full", retry_after_s=pause_s)
            instructions = connection.receive(error_frames(oldest.request_id, busy), now_s)
        elif step in "hH" and hello is not None:
            life = life + "+" if step == "H" else life
            instructions = connection.receive(reply_frames(hello, {"cluster_id": "c", "life": life}), now_s)
            hello = None
        else:
            instructions = connection.tick(now_s)
        for message in map(parse_message, instructions.send):
            hello = message.request if message.op == Op.HELLO else hello
    connection.tick(now_s + 10.0)
    assert all(request.finished for request in requests)
    assert connection.pending_count == 0
