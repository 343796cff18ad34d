"""Information and commands over HTTP: what operators see and do, what they are refused, and what monitoring reads."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.admin.commands import COMMANDS, REFUSED
from oms_journal.broker.admin.subjects import REFUSED as REFUSED_SUBJECTS
from oms_journal.broker.admin.subjects import SUBJECTS
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.rights import Identity, Right
from oms_journal.broker.server.admin.administration import Administration
from oms_journal.broker.store.changes import Changes, NewMessage
from oms_journal.database.options import Options
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.servers.web_place import ALICE, BOB, WebPlace
from tests.support.servers.web_place import SERVICE as CHESS
from tests.support.sweeps import a_sample

SERVICE: dict[str, Any] = dict(CHESS)
BOBS: dict[str, Any] = dict(BOB)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[WebPlace]:
    with WebPlace(tmp_path / "store") as found:
        yield found


def info(place: WebPlace, name: str, *, expects: int = 200, **said: Any) -> dict[str, Any]:
    query = f"?{urlencode(said, doseq=True)}" if said else ""
    code, _, body = place.ask("GET", f"/info/{name}{query}")
    assert code == expects, body
    return dict(json.loads(body))


def rows(place: WebPlace, name: str, **said: Any) -> list[dict[str, Any]]:
    return list(info(place, name, **said)["rows"])


def command(place: WebPlace, name: str, *, expects: int = 200, **said: Any) -> dict[str, Any]:
    body = json.dumps({"command": name, **said}).encode()
    code, _, answer = place.ask("POST", "/command", body, content_type="application/json")
    assert code == expects, answer
    return dict(json.loads(answer))


def send(place: WebPlace, count: int = 1, **fields: Any) -> list[str]:
    """Send units of work of one message each; return their UOWIDs."""
    block = {**ALICE, "conv_id": "NEW", "body_text": "e4", "uwtime": "1H", **SERVICE, **fields}
    place.call("LOGON", user_id=block["user_id"], token=block["token"])
    return [place.call("SEND", "COMMIT", **block)["uowid"] for _ in range(count)]


def serve(place: WebPlace) -> None:
    place.call("LOGON", **BOB)
    place.call("REGISTER", **BOB, **SERVICE)


@a_sample(5)
@pytest.mark.parametrize("name", [*SUBJECTS, "POOL-USAGE", "uow-statistics", "psf"])
def test_every_information_object_answers_with_the_columns_it_promises(place: WebPlace, name: str) -> None:
    send(place)
    serve(place)
    place.call("SUBSCRIBE", "DURABLE", **BOB, topic="NEWS")
    place.call("SEND_PUBLICATION", "COMMIT", **ALICE, topic="NEWS", publication_id="NEW", body_text="rain")

    found = info(place, name)

    subject = SUBJECTS[found["object"]]
    assert (found["code"], found["count"]) == (0, len(found["rows"]))
    assert found["rows"], "there is something of everything"
    assert all(set(row) == set(subject.columns) for row in found["rows"])


def test_there_is_a_list_of_what_can_be_asked_and_said(place: WebPlace) -> None:
    there = json.loads(place.ask("GET", "/info")[2])
    said = json.loads(place.ask("GET", "/command")[2])

    assert {each["object"] for each in there["objects"]} == set(SUBJECTS)
    assert {each["command"] for each in said["commands"]} == set(COMMANDS)
    assert (there["refused"], said["refused"]) == (dict(REFUSED_SUBJECTS), dict(REFUSED))


@pytest.mark.parametrize("name", REFUSED_SUBJECTS)
def test_an_object_that_makes_no_sense_here_is_refused_with_the_reason(place: WebPlace, name: str) -> None:
    found = info(place, name, expects=404)

    assert found["code"] == CommandCode.INVALID_SUBJECT
    assert REFUSED_SUBJECTS[name] in found["text"]


@a_sample(6)
@pytest.mark.parametrize("name", [*REFUSED, "DANCE", ""])
def test_a_command_that_makes_no_sense_here_is_refused_with_the_reason(place: WebPlace, name: str) -> None:
    found = command(place, name, expects=409 if name in REFUSED else 404)

    assert found["code"] == (CommandCode.CANNOT_EXECUTE if name in REFUSED else CommandCode.INVALID_COMMAND)
    assert REFUSED.get(name, "") in found["text"]


def test_pages_follow_one_another_by_their_cursor(place: WebPlace) -> None:
    sent = send(place, 7)

    found, cursor = [], ""
    while True:
        page = info(place, "PSF", limit=3, cursor=cursor)
        assert page["total"] == 7
        found += [row["uowid"] for row in page["rows"]]
        if page["next"] is None:
            break
        cursor = page["next"]

    assert found == sent
    assert info(place, "PSF", status="PROCESSED")["code"] == CommandCode.NOTHING_FOUND


@pytest.mark.parametrize(
    "said", [{"limit": 0}, {"limit": "x"}, {"colour": "red"}, {"status": "LOST"}, {"cursor": "x"}], ids=str
)
def test_a_wrong_question_is_told_what_is_wrong(place: WebPlace, said: dict[str, Any]) -> None:
    assert info(place, "PSF", expects=400, **said)["code"] == CommandCode.INVALID_SELECTOR


def test_what_there_is_can_be_moved_and_purged(place: WebPlace) -> None:
    first, second = send(place, 2, uwstatp=2)

    assert command(place, "SET-UOW-STATUS", object="PSF", option="CANCELLED", uowid=first)["affected"] == 1
    assert [row["status"] for row in rows(place, "PSF")] == ["CANCELLED", "ACCEPTED"]
    again = command(place, "SET-UOW-STATUS", object="PSF", option="ACCEPTED", uowid=first, expects=409)
    assert (again["code"], again["error_code"]) == (CommandCode.STATUS_NOT_SET, "00780307")
    for uowid in (first, second):
        assert command(place, "PURGE", object="PSF", uowid=uowid)["code"] == 0
    gone = command(place, "purge", uowid=first, expects=404)
    assert (gone["code"], gone["error_code"]) == (CommandCode.PURGE_FAILED, "00780305")
    assert rows(place, "PSF") == []


def test_new_units_of_work_are_forbidden_and_allowed(place: WebPlace) -> None:
    command(place, "FORBID-NEWUOWMSGS")
    assert not rows(place, "BROKER")[0]["new_uow_messages"]
    assert place.ask("GET", "/readyz")[0] == 503
    place.call("LOGON", **ALICE)
    refused = place.call("SEND", "COMMIT", **ALICE, **SERVICE, conv_id="NEW", body_text="e4")
    assert refused["error_code"] == "00370445"

    command(place, "ALLOW-NEWUOWMSGS")
    assert place.ask("GET", "/readyz")[0] == 200
    assert send(place)
    assert rows(place, "STATISTICS")[0]["refusals"] == {"00370445": 1}


def test_the_data_files_of_a_running_broker_are_cleaned_up_with_what_pins_them_moved(place: WebPlace) -> None:
    (pinning,) = send(place)
    store = place.broker._store
    assert isinstance(store, JournalStore)
    for _ in range(4):
        store._database.deliver_many(store._database.add_many("churn", [bytes(1000)] * 1000))
    before = info(place, "FILES")["summary"]["bytes"]

    done = command(place, "CLEANUP")
    (row,) = done["rows"]
    assert (done["code"], done["object"], done["affected"]) == (0, "PSF", row["files"])
    assert row["files"] >= 3
    assert row["moved_keys"] >= 1
    assert before - 4_000_000 < row["freed_bytes"] < before
    assert [each["uowid"] for each in rows(place, "PSF")] == [pinning]
    assert command(place, "CLEANUP")["rows"][0]["freed_bytes"] < 1_000_000


def test_without_a_store_there_is_nothing_to_clean_up() -> None:
    with WebPlace(None, pstore="NO") as place:
        refused = command(place, "CLEANUP", expects=409)
        assert (refused["code"], "PSTORE=NO" in refused["text"]) == (CommandCode.CANNOT_EXECUTE, True)


def test_a_store_in_sqlite_tells_its_files_and_leaves_its_syncs_out_of_the_metrics(tmp_path: Path) -> None:
    with WebPlace(tmp_path, pstore_type="SQLITE") as place:
        send(place)
        assert [each["bytes"] > 0 for each in rows(place, "FILES")] == [True]
        assert "oms_store_files" in (found := families(place))
        assert "oms_store_sync_seconds" not in found


def test_a_full_store_is_not_ready_from_its_start_on_and_says_why(place: WebPlace) -> None:
    disk = SimulatedDisk()
    options = Options(max_data_file_size=7680, cleanup_interval=0)
    store = JournalStore.open(Path("/spool"), options, disk=disk)
    store.commit(Changes(adds=[NewMessage("q", b"x")]))
    store.close()
    disk = disk.restart()
    disk.space = disk.used() + 1000
    store = JournalStore.open(Path("/spool"), options, disk=disk)
    running = place.broker._running
    assert running is not None
    own, running.store = running.store, store
    try:
        status, _, body = place.ask("GET", "/readyz")
        assert status == 503
        (reason,) = json.loads(body)["reasons"]
        assert reason.startswith("the persistent store is full: let units of work be received")
        disk.space = None
        store.commit(Changes(adds=[NewMessage("q", b"x")]))
        assert place.ask("GET", "/readyz")[0] == 200
    finally:
        running.store = own
        store.close()


def test_the_store_is_disconnected_and_connected(place: WebPlace) -> None:
    send(place)
    command(place, "DISCONNECT-PSTORE")
    assert not rows(place, "BROKER")[0]["store_connected"]
    status, _, body = place.ask("GET", "/readyz")
    assert (status, json.loads(body)["reasons"]) == (503, ["the persistent store is not available"])
    uowid = rows(place, "PSF")[0]["uowid"]
    away = command(place, "PURGE", uowid=uowid, expects=503)
    assert (away["code"], away["error_code"]) == (CommandCode.PURGE_FAILED, "00780388")

    command(place, "CONNECT-PSTORE")
    assert command(place, "PURGE", uowid=uowid)["code"] == 0


def test_servers_are_shut_down_one_or_all_of_a_service(place: WebPlace) -> None:
    serve(place)
    place.call("LOGON", user_id="CARL", token="C")
    place.call("REGISTER", user_id="CARL", token="C", **SERVICE)
    place.call("REGISTER", user_id="CARL", token="C", **{**SERVICE, "service": "WHITE"})

    assert (
        command(place, "SHUTDOWN", object="SERVER", option="IMMED", expects=409)["code"] == CommandCode.USER_NOT_UNIQUE
    )
    assert command(place, "SHUTDOWN", object="SERVER", option="IMMED", user_id="X", expects=404)["code"] == 24
    done = command(place, "SHUTDOWN", object="SERVER", option="IMMED", user_id="CARL", token="C", **SERVICE)
    assert done["affected"] == 1
    assert [(row["user_id"], row["service"]) for row in rows(place, "SERVER")] == [("BOB", "BLACK"), ("CARL", "WHITE")]
    place.call("REGISTER", user_id="CARL", token="C", **SERVICE)

    assert command(place, "SHUTDOWN", object="SERVICE", option="QUIESCE", **SERVICE)["affected"] == 2
    assert [row["service"] for row in rows(place, "SERVER")] == ["WHITE"]
    assert command(place, "SHUTDOWN", object="SERVICE", option="IMMED", **SERVICE, expects=404)["code"] == 51
    wrong = command(place, "SHUTDOWN", object="SERVICE", option="IMMED", server_class="GAME", expects=409)
    assert wrong["code"] == CommandCode.SERVICE_NOT_UNIQUE


def test_a_service_is_shut_down_without_its_attach_servers(place: WebPlace) -> None:
    serve(place)
    place.call("LOGON", user_id="STARTER", token="1")
    place.call("REGISTER", "ATTACH", user_id="STARTER", token="1", **SERVICE)

    done = command(place, "SHUTDOWN", object="SERVICE", option="IMMED", exclude_attach=True, **SERVICE)

    assert done["affected"] == 1
    assert [row["attach"] for row in rows(place, "SERVER")] == [True]


def test_participants_and_conversations_are_shut_down(place: WebPlace) -> None:
    (uowid,) = send(place)
    conv_id = rows(place, "PSF", uowid=uowid)[0]["conv_id"]
    shut: dict[str, Any] = {"object": "CONVERSATION", "conv_id": conv_id}

    kept = command(place, "SHUTDOWN", option="IMMED", **shut, expects=409)
    assert (kept["code"], kept["error_code"]) == (CommandCode.UNPROCESSED_UOWS, "00200478")
    assert command(place, "SHUTDOWN", **shut, expects=409)["code"] == CommandCode.INVALID_OPTION
    assert command(place, "SHUTDOWN", option="QUIESCE", **shut)["code"] == 0
    assert rows(place, "CONVERSATION", conv_id=conv_id)[0]["state"] == "EOC"
    assert command(place, "SHUTDOWN", object="CONVERSATION", option="IMMED", expects=409)["code"] == 53
    assert command(place, "SHUTDOWN", object="CONVERSATION", conv_id="X", option="IMMED", expects=404)["code"] == 52

    shut = {"object": "PARTICIPANT", "user_id": "ALICE"}
    assert command(place, "SHUTDOWN", option="QUIESCE", **shut, expects=409)["code"] == CommandCode.SERVERS_ONLY
    assert command(place, "SHUTDOWN", option="IMMED", **shut)["affected"] == 1
    assert rows(place, "PARTICIPANT", user_id="ALICE") == []
    assert command(place, "SHUTDOWN", option="IMMED", **shut, expects=404)["code"] == 24


def test_a_user_is_subscribed_by_an_operator(place: WebPlace) -> None:
    who: dict[str, Any] = {"topic": "NEWS", "user_id": "CARL", "token": "C"}

    assert command(place, "SUBSCRIBE", **who)["code"] == 0
    assert [row["user_id"] for row in rows(place, "SUBSCRIBER", durable="true")] == ["CARL"]
    assert command(place, "UNSUBSCRIBE", **who)["code"] == 0
    again = command(place, "UNSUBSCRIBE", **who, expects=404)
    assert (again["code"], again["error_code"]) == (CommandCode.UNSUBSCRIBE_FAILED, "00780305")
    assert command(place, "SUBSCRIBE", user_id="CARL", expects=409)["code"] == CommandCode.TOPIC_MISSING
    assert command(place, "SUBSCRIBE", topic="NEWS", expects=409)["code"] == CommandCode.USER_MISSING


def test_ping_status_and_statistics(place: WebPlace) -> None:
    assert command(place, "NO-OPERATION")["code"] == 0
    assert command(place, "PRODUCE-STATISTICS")["rows"][0]["calls"] >= 0
    assert command(place, "STATUS", object="TRANSPORT")["code"] == 0


def test_the_broker_is_stopped_and_the_one_who_says_so_is_answered(place: WebPlace) -> None:
    stopped = threading.Event()
    place.served.stop = lambda why: stopped.set()

    assert (
        command(place, "SHUTDOWN", object="BROKER", option="QUIESCE", expects=409)["code"] == CommandCode.INVALID_OPTION
    )
    assert command(place, "SHUTDOWN", expects=404)["code"] == CommandCode.INVALID_SUBJECT
    assert not stopped.is_set()
    assert command(place, "SHUTDOWN", object="BROKER")["code"] == 0
    assert stopped.wait(10)


def test_where_there_is_no_broker_a_command_is_refused_in_this_run_mode(place: WebPlace) -> None:
    place.served.broker, place.served.run_mode = None, "STANDBY"

    assert command(place, "PURGE", uowid="1" * 16, expects=503)["code"] == CommandCode.WRONG_RUN_MODE
    assert info(place, "PSF", expects=503)["code"] == CommandCode.WRONG_RUN_MODE
    assert info(place, "BROKER", expects=200)["rows"][0]["run_mode"] == "STANDBY"
    assert place.ask("GET", "/healthz")[0] == 200
    status, _, body = place.ask("GET", "/readyz")
    assert (status, json.loads(body)["run_mode"]) == (503, "STANDBY")
    assert b"oms_broker_active 0" in place.ask("GET", "/metrics")[2]


@pytest.mark.parametrize(
    "body",
    [b"", b"x", b"[]", b'"PURGE"', b'{"command": 7}', b'{"command": "PURGE", "colour": "red"}', b"[" * 100_000],
    ids=lambda body: body[:20].decode(),
)
def test_what_is_no_command_is_told_so(place: WebPlace, body: bytes) -> None:
    status, _, answer = place.ask("POST", "/command", body, content_type="application/json")

    assert status == 400, answer
    assert place.ask("POST", "/command", body, content_type="text/plain")[0] == 415


# Rights.


class Limited(Identity):
    """A user who may administer and look at one service and one topic."""

    def may(self, right: Right, name: str) -> bool:
        return right in (Right.LOOK, Right.ADMINISTER) and name in ("GAME/CHESS/BLACK", "topic/NEWS")


def test_who_may_look_at_one_service_sees_no_other(place: WebPlace) -> None:
    mine, other = send(place)[0], send(place, **{**SERVICE, "service": "WHITE"})[0]
    place.call("SUBSCRIBE", "DURABLE", **ALICE, topic="NEWS")
    place.call("SUBSCRIBE", "DURABLE", **ALICE, topic="SECRETS")
    administration = place.listener.app.state.administration = _administration(place)
    dora = Limited("DORA")

    def asked(name: str) -> list[dict[str, Any]]:
        return list(place.run(administration.information(dora, name, []))["rows"])

    assert [row["uowid"] for row in asked("PSF")] == [mine]
    for name in ("SERVICE", "CONVERSATION", "UOW-STATISTICS"):
        assert {row["service"] for row in asked(name)} == {"BLACK"}
    for name in ("TOPIC", "SUBSCRIBER"):
        assert {row["topic"] for row in asked(name)} == {"NEWS"}
    for name in ("BROKER", "PARTICIPANT", "CLIENT", "FILES", "LATENCY", "STATISTICS", "TRANSPORT", "RESOURCE-USAGE"):
        assert _refusal(place, administration.information(dora, name, [])) is CommandCode.NOT_AUTHORIZED
    for said in (
        {"command": "PURGE", "uowid": other},
        {"command": "PURGE", "uowid": "1" * 16},
        {"command": "SHUTDOWN", "object": "BROKER"},
        {"command": "SHUTDOWN", "object": "SERVICE", "option": "IMMED", **SERVICE, "service": "WHITE"},
        {"command": "SHUTDOWN", "object": "PARTICIPANT", "option": "IMMED", "user_id": "ALICE"},
        {"command": "SUBSCRIBE", "topic": "SECRETS", "user_id": "DORA"},
        *({"command": name} for name in ("CONNECT-PSTORE", "FORBID-NEWUOWMSGS", "CLEANUP", "STATUS")),
    ):
        assert _refusal(place, administration.command(dora, said)) is CommandCode.NOT_AUTHORIZED, said
    assert place.run(administration.command(dora, {"command": "PURGE", "uowid": mine}))["code"] == 0


_SHUTDOWN = {"command": "SHUTDOWN", "option": "IMMED"}


def test_no_command_tells_whether_there_is_what_a_user_may_not_see(place: WebPlace) -> None:
    place.call("LOGON", **ALICE)
    place.call("LOGON", **BOB)
    white = SERVICE | {"service": "WHITE"}
    hidden = place.call("SEND", "COMMIT", **ALICE, **white, conv_id="NEW", body_text="e4")
    place.call("REGISTER", **BOB, **white)
    administration = _administration(place)

    for name, there, elsewhere in (
        ({"command": "PURGE"}, {"uowid": hidden["uowid"]}, {"uowid": "1" * 16}),
        ({"command": "SET-UOW-STATUS", "option": "CANCELLED"}, {"uowid": hidden["uowid"]}, {"uowid": "1" * 16}),
        (_SHUTDOWN | {"object": "CONVERSATION"}, {"conv_id": hidden["conv_id"]}, {"conv_id": "1" * 16}),
        (_SHUTDOWN | {"object": "SERVER"}, {"user_id": BOBS["user_id"]}, {"user_id": "NOBODY"}),
    ):
        told = [_told(place, administration.command(Limited("DORA"), name | said)) for said in (there, elsewhere)]
        assert told[0] == told[1] == (CommandCode.NOT_AUTHORIZED, CommandCode.NOT_AUTHORIZED.text), name


@a_sample(2)
@pytest.mark.parametrize("limit", [1, 2, 1000])
@pytest.mark.parametrize(
    "name", ["PSF", "SERVICE", "CONVERSATION", "UOW-STATISTICS", "TOPIC", "SUBSCRIBER", "PUBLICATION"]
)
def test_no_cursor_and_no_total_tells_what_a_user_may_not_see(place: WebPlace, name: str, limit: int) -> None:
    topics = ("A", "NEWS", "SECRETS", "Z")
    for who in (ALICE, BOB):
        place.call("LOGON", **who)
    for topic in topics:
        for who in (ALICE, BOB):
            place.call("SUBSCRIBE", "DURABLE", **who, topic=topic)
    for number in range(12):
        send(place, **{**SERVICE, "service": ("A", "BLACK", "WHITE")[number % 3]})
        place.call("SEND_PUBLICATION", "COMMIT", **ALICE, topic=topics[number % 4], publication_id="NEW", body_text="x")
    administration = _administration(place)
    dora, said = Limited("DORA"), [("limit", str(limit))]
    everything = place.run(administration.information(Identity("ROOT"), name, [("limit", "1000")]))["rows"]
    seen: list[dict[str, Any]] = []
    cursor = ""
    while cursor is not None:
        page = place.run(administration.information(dora, name, [*said, ("cursor", cursor)]))
        assert page["total"] is None
        assert page["rows"], "a page that there was a cursor to has rows"
        seen += page["rows"]
        cursor = page["next"]
        if cursor is not None:
            assert len(page["rows"]) == limit
            assert not any(hidden in cursor for hidden in ("A", "SECRETS", "WHITE", '"Z"') if len(hidden) > 1)

    def is_mine(row: dict[str, Any]) -> bool:
        return row.get("topic") == "NEWS" or row.get("service") == "BLACK"

    identifiers = [
        key for key in ("uowid", "conv_id", "publication_id", "user_id", "service", "topic") if key in seen[0]
    ]
    assert [[row[key] for key in identifiers] for row in seen] == [
        [row[key] for key in identifiers] for row in everything if is_mine(row)
    ]
    assert len(seen) < len(everything)


def _administration(place: WebPlace) -> Any:
    return Administration(place.served)


def _refusal(place: WebPlace, work: Any) -> CommandCode:
    return _told(place, work)[0]


def _told(place: WebPlace, work: Any) -> tuple[CommandCode, str]:
    with pytest.raises(CisRefused) as refused:
        place.run(work)
    return refused.value.code, refused.value.text


# Monitoring.


def families(place: WebPlace) -> dict[str, Any]:
    status, headers, body = place.ask("GET", "/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return {family.name: family for family in text_string_to_metric_families(body.decode())}


def test_metrics_are_what_their_own_parser_reads(place: WebPlace) -> None:
    uowid = send(place, 3)[0]
    serve(place)
    received = place.call("RECEIVE", "SYNC", **BOB, **SERVICE, conv_id="NEW", wait="NO")
    place.call("SYNCPOINT", "COMMIT", **BOB, uowid=received["uowid"])
    command(place, "PURGE", uowid="1" * 16, expects=404)

    found = families(place)

    def value(name: str, **labels: str) -> float:
        family = found[re.sub("_(total|count|bucket)$", "", name)]
        (sample,) = [each for each in family.samples if each.name == name and labels.items() <= each.labels.items()]
        return float(sample.value)

    assert received["uowid"] == uowid
    assert value("oms_uows_active") == 2
    assert value("oms_service_uows", state="waiting", service="BLACK") == 2
    assert value("oms_service_uows_accepted_total", service="BLACK") == 3
    assert value("oms_service_uows_completed_total", end="processed") == 1
    assert value("oms_store_connected") == value("oms_broker_active") == 1
    assert value("oms_commit_group_seconds_count") == value("oms_commit_group_seconds_bucket", le="+Inf") > 0
    assert value("oms_store_sync_seconds_count") == value("oms_store_sync_seconds_bucket", le="+Inf") > 0
    for name in ("oms_commit_group_seconds", "oms_store_sync_seconds"):
        buckets = [each.value for each in found[name].samples if each.name.endswith("_bucket")]
        assert buckets == sorted(buckets)
    for family in found.values():
        assert family.documentation and family.type in ("gauge", "counter", "histogram")
        assert family.name.startswith(("oms_", "process_"))


@pytest.mark.whole
def test_the_number_of_labels_is_bounded_and_nothing_is_left_out(place: WebPlace) -> None:
    place.call("LOGON", **ALICE)
    names = [f"S{number:03}" for number in range(230)] + ['odd "name"\\']
    for name in names:
        place.call("SEND", "COMMIT", **ALICE, **{**SERVICE, "service": name}, conv_id="NEW", body_text="x")

    samples = families(place)["oms_service_uows_accepted"].samples

    assert len(samples) == 201
    assert sum(sample.value for sample in samples) == len(names)
    assert samples[-1].labels["service"] == "(others)"
