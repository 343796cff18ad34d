"""The broker's callers attacked: scripts of calls at bad moments, held against the model of units of work.

`make fuzz TARGET=callers` plays fresh scripts for as long as one likes; `python -m tests.callers --faults` makes all
faults.

The sample has one variant of each way to give an argument to ten of the calls, two of the faces, and one deliberate
fault.
"""

import itertools
import socket
import traceback
from collections.abc import Iterable
from contextlib import closing

import pytest

from tests.api.arguments import Argument
from tests.api.moments import Cancel, Interrupt
from tests.callers.campaign import CAMPAIGN
from tests.callers.faces import FACES
from tests.callers.faults import FAULTS
from tests.callers.given import RIGHT, WORDS, WRONG
from tests.callers.play import play
from tests.callers.steps import (
    APART,
    CLASSES,
    COMINGS,
    SERVERS,
    Call,
    Come,
    InPassing,
    Passed,
    Tried,
    kind_of,
    methods,
    parameters,
)
from tests.callers.sweep import SWEPT, VARIANTS, sweep
from tests.callers.wire import Wire
from tests.support.attack import search, seed_played
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.sweeps import a_sample, for_each, sampled, split

SCRIPTS = {"threads": 10, "tasks": 10, "remote threads": 4, "remote tasks": 4}
SEED = 15
TOPIC, BODY = Argument("topic", "a topic", 0), Argument("body", "plain-bytes", 3)
# Found in a moment; all others: `python -m tests.callers --faults`, and the slow tests.
SOON = ("a-repeat-adds", "an-exception-commits")


@pytest.mark.parametrize("owner", CLASSES)
def test_every_public_method_and_parameter_of_a_session_has_ways_to_be_given(owner: str) -> None:
    for method in methods(owner):
        for parameter in parameters(owner, method):
            kind = kind_of(parameter)
            assert RIGHT[kind] and WRONG[kind] and WORDS[kind], f"{owner}.{method}({parameter})"


@pytest.mark.parametrize("owner", CLASSES)
def test_what_no_script_calls_is_there(owner: str) -> None:
    assert [name for name in APART[owner] if not hasattr(CLASSES[owner], name)] == []


@a_sample(1)
@pytest.mark.parametrize("face", sampled(SCRIPTS, 2))
def test_scripts_of_calls_do_what_the_model_says(face: str) -> None:
    found = seed_played(CAMPAIGN, face, SEED, examples=SCRIPTS[face])

    if found.failure is not None:
        pytest.fail("\n".join(traceback.format_exception(found.failure)))


def _of_carol(of: str, method: str, pick: int = 0) -> Call:
    topic = ("topic", Argument("topic", "a topic", 0))
    durable = ("durable", Argument("flag", "yes or no", 0))
    return Call("CAROL", of, method, (topic, durable) if method == "subscribe" else (), pick=pick)


@a_sample(2)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("end", [_of_carol("subscription", "unsubscribe", 1), Come("CAROL", "lost")])
def test_connections_of_a_user_without_token_share_a_durable_subscription(end: Call | Come, face: str) -> None:
    published = Call("ALICE", "session", "publish", tuple(zip(("topic", "body"), (TOPIC, BODY), strict=True)))
    received = _of_carol("subscription", "receive")
    play(
        (
            *(_of_carol("session", "subscribe"), published, Come("CAROL", "elsewhere"), received),
            *(_of_carol("session", "subscribe"), published, received, end, received, published, received),
        ),
        face,
    )


@a_sample(2, more=10)
@pytest.mark.parametrize("face", FACES[:2])
@pytest.mark.parametrize("who", SERVERS)
@pytest.mark.parametrize("then", ["commit", "backout", *COMINGS])
def test_a_message_that_is_received_in_passing_goes_on_with_its_unit_of_work(then: str, who: str, face: str) -> None:
    play((InPassing(who, 3, 2, 0, then),), face)


@a_sample(1)
@pytest.mark.parametrize(("face", "moment"), [("threads", Interrupt(40)), ("remote tasks", Cancel(1, "begun"))])
@pytest.mark.parametrize("method", ["next", "commit", "leave"])
def test_a_unit_of_work_that_was_being_received_before_a_recovery_is_lost(
    method: str, face: str, moment: Interrupt | Cancel
) -> None:
    sent = Call("ALICE", "session", "send", (("service", Argument("service", "as text", 0)), ("body", BODY)))
    receive = Call("DAVE", "session", "receive_unit", moment=moment)
    play((InPassing("DAVE", 3, 1, 0, "recover"), sent, receive, Call("DAVE", "received", method)), face)


@a_sample(2, more=6)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("service", [0, 2])  # with delays for ever; with an end, and a second chance
@pytest.mark.parametrize("is_asked_for", [False, True])
def test_what_is_given_back_comes_again_in_its_time(is_asked_for: bool, service: int, face: str) -> None:
    play((Tried("BOB", service, 3, 0, is_asked_for), Passed(7), Passed(61), Tried("DAVE", service, 3, 61)), face)


def test_what_a_namesake_without_token_is_told_of_a_unit_that_is_received_elsewhere_is_not_in_the_model() -> None:
    query = Call("DAVE", "session", "query", (("uowid", Argument("uowid", "a unit", 0)),))
    play((InPassing("DAVE", 2, 1, 0, "elsewhere"), query), "threads")


RECEIVES = itertools.product([1, 2], ["begun", "later", "answered"], range(4))


@a_sample(1, more=8)
@pytest.mark.parametrize("receive", sampled(RECEIVES, 8, kind=lambda receive: receive[:2]), ids=str)
def test_what_a_cancelled_receive_has_heard_in_passing_is_kept_or_given_back(receive: tuple[int, str, int]) -> None:
    times, when, turns = receive
    for place in range(1, 5):
        play((InPassing("BOB", 3, times, 0, "commit", Cancel(place, when, turns)),), "tasks")


def test_a_wire_whose_server_was_away_carries_what_comes_when_it_is_back() -> None:
    message = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"
    away = socket.create_server(("127.0.0.1", 0))
    port = away.getsockname()[1]
    away.close()
    with closing(Wire(port)) as wire:
        address = ("127.0.0.1", int(wire.url.rpartition(":")[2]))
        with socket.create_connection(address, TIMEOUT_SECONDS) as refused:
            assert refused.recv(1) == b""

        with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(address) as near:
            near.sendall(message)
            server.settimeout(TIMEOUT_SECONDS)
            far, _ = server.accept()
            with far:
                far.settimeout(TIMEOUT_SECONDS)
                assert far.recv(len(message), socket.MSG_WAITALL) == message


def _ways_played(name: str, variants: Iterable[int]) -> None:
    found = [failure for _, failure in sweep(name, FACES[0], variants) if failure is not None]

    if found:
        pytest.fail(f"{len(found)}, the first: " + "\n".join(traceback.format_exception(found[0])))


@for_each("name", SWEPT, sample=5, is_long=True)
def test_every_way_to_give_an_argument_is_taken_as_it_is_meant_or_refused_in_words(name: str) -> None:
    _ways_played(name, [0])


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEPT)
def test_every_variant_of_every_way_is_taken_as_it_is_meant_or_refused_in_words(name: str) -> None:
    _ways_played(name, range(1, VARIANTS))


@pytest.mark.whole
@pytest.mark.parametrize("name", split(SOON[:1], SOON[1:]))
def test_a_fault_at_the_entrance_of_the_broker_is_found(name: str) -> None:
    assert search(CAMPAIGN, FAULTS[name]) is not None, FAULTS[name].text


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in SOON])
def test_a_fault_at_the_entrance_of_the_broker_that_takes_longer_is_found(name: str) -> None:
    assert search(CAMPAIGN, FAULTS[name]) is not None, FAULTS[name].text


def test_every_deliberate_fault_fits_the_product() -> None:
    """One that cannot be made would count as found: what cannot be made raises."""
    for each in FAULTS.values():
        with each.made():
            pass


def test_there_are_deliberate_faults_enough() -> None:
    assert len(FAULTS) >= 8
    assert set(SOON) <= set(FAULTS)


def test_a_step_can_be_read_back() -> None:
    step = Call("ALICE", "session", "query", (("uowid", Argument("uowid", "one", 0)),))

    assert eval(repr(step)) == step  # what is printed of a failing script can be played
