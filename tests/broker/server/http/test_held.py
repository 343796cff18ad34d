"""What is held since the store was restored, for operators over HTTP: seen, released, discarded, told to monitoring."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.admin.codes import CommandCode
from tests.broker.server.http.test_operators import Limited, _administration, _refusal, command, info, rows, send, serve
from tests.support.broker.held_stores import mark_restored
from tests.support.servers.web_place import ALICE, BOB, SERVICE, WebPlace
from tests.support.sweeps import a_sample

CHESS: dict[str, Any] = dict(SERVICE)
OTHER: dict[str, Any] = {**SERVICE, "service": "WHITE"}


class Restored:
    """A place whose store was restored with units of work of two services, and two publications for two readers."""

    def __init__(self, place: WebPlace, black: list[str], white: list[str]) -> None:
        self.place = place
        self.black = black
        self.white = white


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Restored]:
    directory = tmp_path / "store"
    with WebPlace(directory) as before:
        black, white = send(before, 3, uwstatp=2), send(before, 2, uwstatp=2, **OTHER)
        for reader in (ALICE, BOB):
            before.call("LOGON", **reader)
            before.call("SUBSCRIBE", "DURABLE", **reader, topic="NEWS")
        for text in ("rain", "sun"):
            publish(before, text)
    mark_restored(directory)
    with WebPlace(directory) as place:
        yield Restored(place, black, white)


def publish(place: WebPlace, text: str) -> str:
    said = place.call("SEND_PUBLICATION", "COMMIT", **ALICE, topic="NEWS", publication_id="NEW", body_text=text)
    return str(said["publication_id"])


def received(place: WebPlace, **service: Any) -> list[str]:
    """Receive and commit all that a service has; return the UOWIDs."""
    names = service or SERVICE
    place.call("LOGON", **BOB)
    place.call("REGISTER", **BOB, **names)
    found = []
    while (got := place.call("RECEIVE", "SYNC", **BOB, conv_id="NEW", **names))["error_code"] == "00000000":
        found.append(got["uowid"])
        place.call("SYNCPOINT", "COMMIT", **BOB, uowid=got["uowid"])
    return found


def read(place: WebPlace, reader: dict[str, str]) -> list[str]:
    """Receive and acknowledge all that a reader can have; return the texts."""
    place.call("LOGON", **reader)
    found: list[str] = []
    while True:
        said: dict[str, Any] = {**reader, "topic": "NEWS", "publication_id": "NEW", "as_text": True}
        got = place.call("RECEIVE_PUBLICATION", **said)
        if got["error_code"] != "00000000":
            return found
        found.append(got["body_text"])
        place.call("CONTROL_PUBLICATION", "COMMIT", **reader, publication_id=got["publication_id"], topic="NEWS")


def test_what_is_held_is_seen_and_not_received_and_what_is_new_is(there: Restored) -> None:
    place = there.place
    broker = rows(place, "BROKER")[0]
    assert (broker["held_uows"], broker["held_publications"]) == (5, 4)
    assert broker["held_since"]
    assert [row["uowid"] for row in rows(place, "PSF", held="yes", **CHESS)] == there.black
    assert {row["service"]: row["held"] for row in rows(place, "SERVICE")} == {"BLACK": 3, "WHITE": 2}
    assert [row["held"] for row in rows(place, "SUBSCRIBER")] == [2, 2]
    assert [row["held"] for row in rows(place, "PUBLICATION")] == [2, 2]
    assert info(place, "PSF", held="perhaps", expects=400)["code"] == CommandCode.INVALID_SELECTOR
    text = place.ask("GET", "/metrics")[2].decode()
    assert "oms_uows_held 5" in text
    assert "oms_publications_held 4" in text
    assert place.ask("GET", "/readyz")[0] == 200
    place.call("LOGON", **ALICE)
    asked = place.call("SYNCPOINT", "QUERY", **ALICE, uowid=there.black[0])
    assert (asked["uow_status"], "held" in asked["error_text"]) == ("ACCEPTED", True)

    (new,) = send(place)
    publish(place, "new")
    assert received(place) == [new]
    assert (read(place, ALICE), read(place, BOB)) == (["new"], ["new"])
    assert [row["uowid"] for row in rows(place, "PSF", held="no", status="ACCEPTED")] == []


def test_units_of_work_are_released_by_what_they_are_and_come_in_order(there: Restored) -> None:
    place = there.place
    assert command(place, "RELEASE", uowid=there.black[1])["affected"] == 1
    assert received(place) == [there.black[1]]
    assert command(place, "RELEASE", **CHESS)["affected"] == 2
    assert received(place) == [there.black[0], there.black[2]]
    assert command(place, "RELEASE", object="PSF", identifiers=list(reversed(there.white)))["affected"] == 2
    assert received(place, **OTHER) == there.white
    assert rows(place, "BROKER")[0]["held_uows"] == 0
    for row in rows(place, "PSF"):
        assert (row["status"], row["held"]) == ("PROCESSED", False)


@pytest.mark.parametrize("status", ["PROCESSED", "DISCARDED"])
def test_units_of_work_are_discarded_and_their_status_says_how(there: Restored, status: str) -> None:
    place = there.place
    assert command(place, "DISCARD", option=status, user_id="ALICE", **CHESS)["affected"] == 3
    assert {row["status"] for row in rows(place, "PSF", **CHESS)} == {status}
    assert command(place, "DISCARD", option=status, all=True)["affected"] == 2
    place.call("LOGON", **ALICE)
    assert place.call("SYNCPOINT", "QUERY", **ALICE, uowid=there.white[0])["uow_status"] == status
    assert received(place) == received(place, **OTHER) == []


def test_ages_choose_among_what_is_held(there: Restored) -> None:
    place = there.place
    assert command(place, "RELEASE", older="1H", expects=409)["code"] == CommandCode.NOT_RELEASED
    assert command(place, "DISCARD", option="PROCESSED", object="SUBSCRIBER", older="1H", expects=409)
    assert command(place, "RELEASE", newer="1H", **CHESS)["affected"] == 3
    assert command(place, "RELEASE", object="SUBSCRIBER", newer="1H")["affected"] == 4
    assert command(place, "RELEASE", older="soon", expects=400)["code"] == CommandCode.INVALID_SELECTOR


def test_publications_are_released_and_discarded_for_each_subscriber(there: Restored) -> None:
    place = there.place
    first, second = (row["publication_id"] for row in rows(place, "PUBLICATION"))
    assert command(place, "RELEASE", object="SUBSCRIBER", topic="NEWS", user_id="ALICE")["affected"] == 2
    assert (read(place, ALICE), read(place, BOB)) == (["rain", "sun"], [])
    said: dict[str, Any] = {"object": "SUBSCRIBER", "option": "PROCESSED", "user_id": "BOB", "identifiers": [first]}
    assert command(place, "DISCARD", **said)["affected"] == 1
    assert command(place, "RELEASE", object="SUBSCRIBER", all=True)["affected"] == 1
    assert read(place, BOB) == ["sun"]
    assert rows(place, "PUBLICATION") == []
    assert (
        command(place, "RELEASE", object="SUBSCRIBER", identifiers=[second], expects=409)["code"]
        == CommandCode.NOT_RELEASED
    )


@a_sample(1)
@pytest.mark.parametrize(
    "said",
    [
        {},
        {"object": "SUBSCRIBER"},
        {"all": True, "uowid": "1000000100000002"},
        {"identifiers": "1000000100000002"},
        {"identifiers": ["x" * 256]},
        {"identifiers": ["x"] * 1001},
        {"identifiers": [1]},
        {"all": "yes"},
        {"topic": "NEWS", "newer": "1H"},
        {"client_id": 1, "user_id": "ALICE"},
        {"object": "SUBSCRIBER", "topic": "NEWS", "service": "CHESS"},
        {"object": "TOPIC"},
        {"option": "PROCESSED", "all": True},
    ],
)
def test_an_order_that_does_not_say_what_it_is_about_changes_nothing(there: Restored, said: dict[str, Any]) -> None:
    code = {"TOPIC": 404}.get(said.get("object", ""), 409 if "option" in said else 400)
    assert command(there.place, "RELEASE", expects=code, **said)["code"] in (
        CommandCode.INVALID_SELECTOR,
        CommandCode.INVALID_SUBJECT,
        CommandCode.INVALID_OPTION,
    )
    assert command(there.place, "DISCARD", expects=409, all=True)["code"] == CommandCode.INVALID_OPTION
    assert rows(there.place, "BROKER")[0]["held_uows"] == 5


def test_who_may_administer_one_service_releases_no_other(there: Restored) -> None:
    place = there.place
    administration = place.listener.app.state.administration = _administration(place)
    dora = Limited("DORA")

    for said in (
        {"command": "RELEASE", "all": True},
        {"command": "RELEASE", "uowid": there.white[0]},
        {"command": "DISCARD", "option": "DISCARDED", "identifiers": [there.black[0], there.white[0]]},
        {"command": "RELEASE", "uowid": "1" * 16},
    ):
        assert _refusal(place, administration.command(dora, said)) is CommandCode.NOT_AUTHORIZED, said
    assert rows(place, "BROKER")[0]["held_uows"] == 5
    assert place.run(administration.command(dora, {"command": "RELEASE", **SERVICE}))["affected"] == 3
    said = {"command": "RELEASE", "object": "SUBSCRIBER", "topic": "NEWS"}
    assert place.run(administration.command(dora, said))["affected"] == 4


def test_without_the_store_a_release_is_refused_and_nothing_is_released(there: Restored) -> None:
    place = there.place
    command(place, "DISCONNECT-PSTORE")
    for target in ("PSF", "SUBSCRIBER"):
        refused = command(place, "RELEASE", all=True, object=target, expects=503)
        assert refused["code"] == CommandCode.NOT_RELEASED
    command(place, "CONNECT-PSTORE")
    assert rows(place, "BROKER")[0]["held_uows"] == 5
    assert command(place, "RELEASE", all=True)["affected"] == 5


@pytest.mark.whole
def test_many_are_released_in_commits_of_bounded_size(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    with WebPlace(directory) as before:
        sent = send(before, 600)
    mark_restored(directory)
    with WebPlace(directory) as place:
        assert rows(place, "BROKER")[0]["held_uows"] == 600
        counted = rows(place, "STATISTICS")[0]["commits"]
        assert command(place, "RELEASE", all=True)["affected"] == 600
        assert 3 <= rows(place, "STATISTICS")[0]["commits"] - counted <= 6
        serve(place)
        assert received(place)[:3] == sent[:3]
