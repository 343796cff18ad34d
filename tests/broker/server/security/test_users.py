"""The users file, the passwords in it, and what its patterns fit."""

import json
import os
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.codes import BrokerError
from oms_journal.broker.destinations import ToService, parse_destination
from oms_journal.broker.patterns import matches
from oms_journal.broker.rights import BROKER, Right, service_name, topic_name
from oms_journal.broker.server.security import passwords
from oms_journal.broker.server.security.passwords import Cost, hash_password
from oms_journal.broker.server.security.users import FORMAT, User, UsersInvalid, pattern_of, read_users, write
from tests.support.sweeps import for_each

CHEAP = Cost(log_n=4)
SECRET = "correct horse battery"


def user(name: str = "ALICE", **rights: Any) -> User:
    return User(name, hash_password(SECRET, CHEAP), **rights)


def test_only_the_same_password_fits_and_its_text_holds_nothing_of_it() -> None:
    kept = hash_password(SECRET, CHEAP)
    text = str(kept)

    assert passwords.parse_password_hash(text) == kept and passwords.parse_password_hash(text).fits(SECRET)
    assert not any(
        kept.fits(other) for other in ("", SECRET + " ", SECRET[:-1], SECRET.upper(), SECRET * 100, "\ud800")
    )
    assert SECRET not in text and SECRET not in repr(kept) and text not in repr(kept)
    assert str(hash_password(SECRET, CHEAP)) != text  # another salt


@pytest.mark.parametrize("password", ["", "1234567", "x" * 1025, "é" * 513])
def test_a_password_that_is_too_short_or_too_long_is_not_taken(password: str) -> None:
    with pytest.raises(ValueError, match="a password has"):
        hash_password(password, CHEAP)


def test_every_cut_and_every_odd_cost_of_a_stored_password_is_refused() -> None:
    text = str(hash_password(SECRET, CHEAP))
    broken = [text[:end] for end in range(len(text))]
    broken += [
        text.replace(":4:8:1:", f":{cost}:")
        for cost in ("3:8:1", "21:8:1", "4:0:1", "4:8:0", "4:8:17", "-4:8:1", "٤:8:1")
    ]

    for each in [*broken, text + ":", text.replace("scrypt", "plain"), text.replace("scrypt", "scrypt2")]:
        with pytest.raises(ValueError):
            passwords.parse_password_hash(each)


def test_what_is_written_is_read_again_and_only_its_owner_can(tmp_path: Path) -> None:
    path = tmp_path / "users"
    users = {
        "ALICE": user(allow={Right.SEND: ("QUEUE/*",)}, deny={Right.SEND: ("QUEUE/SECRET*",)}),
        "Bob ü": user("Bob ü"),
    }
    before = os.umask(0)
    try:
        write(path, users)
        write(path, users)
    finally:
        os.umask(before)

    assert read_users(path) == users
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["users"]
    assert SECRET not in path.read_text()


def test_a_right_to_nothing_is_none(tmp_path: Path) -> None:
    path = tmp_path / "users"
    write(path, {"ALICE": user(allow={Right.SEND: ("QUEUE/*",)})})
    path.write_text(path.read_text().replace('"send"', '"administer": [], "send"'))

    assert read_users(path)["ALICE"].allow == {Right.SEND: ("QUEUE/*",)}


@pytest.mark.parametrize("mode", [0o600 | bit for bit in (0o1, 0o2, 0o4, 0o10, 0o20, 0o40)] + [0o644, 0o777])
def test_a_users_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "users"
    write(path, {"ALICE": user()})
    path.chmod(mode)

    with pytest.raises(UsersInvalid, match=f"mode {mode:04o}: others can reach it; chmod 600"):
        read_users(path)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_private_users_file_is_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "users"
    write(path, {"ALICE": user()})
    path.chmod(mode)

    assert set(read_users(path)) == {"ALICE"}


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("pipe", ".", "missing"):
        with pytest.raises(UsersInvalid):
            read_users(tmp_path / name)


KEPT = str(hash_password(SECRET, CHEAP))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "too deeply"),
        ("[]", "is not an object"),
        ({"format": FORMAT}, "users is not an object"),
        ({"format": "oms users 2", "users": {}}, "format is not"),
        ({"format": FORMAT, "users": {}, "groups": {}}, "'groups', which is not known"),
        ({"format": FORMAT, "users": {"A": {}}}, "A has no password"),
        ({"format": FORMAT, "users": {"A": {"password": "secret"}}}, "password of A"),
        ({"format": FORMAT, "users": {"A": {"password": KEPT, "may": {}}}}, "'may', which is not known"),
        ({"format": FORMAT, "users": {"A": {"password": KEPT, "allow": {"fly": []}}}}, "'fly', which is not known"),
        ({"format": FORMAT, "users": {"A": {"password": KEPT, "allow": {"send": "*"}}}}, "not a list"),
        ({"format": FORMAT, "users": {"A": {"password": KEPT, "allow": {"send": ["A/B"]}}}}, "A/B is none of"),
        ({"format": FORMAT, "users": {"A:B": {"password": KEPT}}}, "without a colon"),
        ({"format": FORMAT, "users": {" A": {"password": KEPT}}}, "blanks around it"),
        ({"format": FORMAT, "users": {"A" * 33: {"password": KEPT}}}, "at most 32 bytes"),
        ('{"format": "oms users 1", "users": {"A": 1, "A": 2}}', "stands there twice"),
        (b"\xff", "it is not UTF-8"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) and len(value) < 30 else "",
)
def test_a_users_file_that_is_not_right_is_refused_without_a_secret_in_the_reason(
    tmp_path: Path, said: object, reason: str
) -> None:
    path = tmp_path / "users"
    data = said if isinstance(said, bytes) else said.encode() if isinstance(said, str) else json.dumps(said).encode()
    path.write_bytes(data)
    path.chmod(0o600)

    with pytest.raises(UsersInvalid) as refused:
        read_users(path)

    assert re.search(reason, str(refused.value)), refused.value
    assert KEPT not in str(refused.value) and KEPT.split(":")[-1] not in str(refused.value)


def test_a_writer_that_is_interrupted_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    write(path, {"ALICE": user()})
    (tmp_path / "users.new").touch()

    with pytest.raises(FileExistsError):
        write(path, {})

    assert set(read_users(path)) == {"ALICE"}


@for_each("pattern", ["".join(text) for length in range(5) for text in product("ab*", repeat=length)])
def test_a_pattern_fits_what_the_same_regular_expression_does(pattern: str) -> None:
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))))
    names = ["".join(text) for length in range(5) for text in product("ab", repeat=length)]

    assert [matches([pattern], name) for name in names] == [bool(expression.fullmatch(name)) for name in names]


def test_a_pattern_of_very_many_stars_is_no_work() -> None:
    assert not matches(["a*" * 120], "a" * 96 + "b")
    assert not matches(["*a" * 120 + "b"], "a" * 96)


@pytest.mark.parametrize(
    "text", ["/queue/ORDERS", "/queue/" + "N" * 40, "/queue/a/b%", "/topic/NEWS", "/service/A/B/C"]
)
def test_a_destination_as_a_pattern_fits_what_it_names(text: str) -> None:
    where = parse_destination(text)
    name = service_name(*where.names) if isinstance(where, ToService) else topic_name(str(where.topic))  # type: ignore[union-attr]

    assert matches([pattern_of(text)], name)
    assert pattern_of(pattern_of(text)) == pattern_of(text)


@for_each("length", range(1, 60))
def test_a_pattern_of_queues_fits_every_queue_that_begins_so(length: int) -> None:
    for begin in ("ORDERS", "O" * 24, "a/%", "ü" * 12):
        for more in ("x", "-", "ü", "€", "😀"):
            name = begin + more * length
            try:
                where = parse_destination(f"/queue/{name}")
            except BrokerError:
                continue  # too long
            assert isinstance(where, ToService)
            assert matches([pattern_of(f"/queue/{begin}*")], service_name(*where.names)), name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "A/B",
        "A/B/C/D",
        "/queue/",
        "/temp/x",
        "/conversation/7",
        "/queue/a*b",
        "/queue/" + "N" * 25 + "*",
        "a\nb/c/d",
        "*" * 257,
    ],
)
def test_a_pattern_that_could_fit_nothing_or_not_what_is_meant_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        pattern_of(text)


SERVICE = service_name("QUEUE", "SECRET", "-")
HOLDERS = {
    "nothing": ({}, {}),
    "all": (dict.fromkeys(Right, ("*",)), {}),
    "all but": (dict.fromkeys(Right, ("*",)), dict.fromkeys(Right, ("QUEUE/SECRET*",))),
    "administers": ({Right.ADMINISTER: ("*",)}, {}),
    "administers but": ({Right.ADMINISTER: ("*",)}, {Right.ADMINISTER: ("QUEUE/S*",)}),
    "administers unseen": ({Right.ADMINISTER: ("*",)}, {Right.LOOK: ("QUEUE/S*",)}),
}


@pytest.mark.parametrize(
    ("holder", "rights"),
    [
        ("nothing", set()),
        ("all", set(Right)),
        ("all but", set()),
        ("administers", {Right.ADMINISTER, Right.LOOK}),
        ("administers but", set()),
        ("administers unseen", {Right.ADMINISTER}),
    ],
)
def test_what_is_denied_counts_and_what_nothing_allows_is_refused(holder: str, rights: set[Right]) -> None:
    allow, deny = HOLDERS[holder]
    found = user(allow=allow, deny=deny)

    assert {right for right in Right if found.may(right, SERVICE)} == rights
    assert {right for right in Right if found.may(right, SERVICE)} == rights  # remembered
    assert found.may(Right.LOOK, BROKER) == (Right.LOOK in allow or Right.ADMINISTER in allow)


def test_a_topic_is_another_thing_than_a_service_of_its_name() -> None:
    found = user(allow={Right.SEND: (pattern_of("/topic/A/B"), "topic/C*")})

    assert found.may(Right.SEND, topic_name("A/B")) and found.may(Right.SEND, topic_name("CD"))
    assert not found.may(Right.SEND, service_name("topic", "A", "B"))
    assert not found.may(Right.SEND, service_name("topic", "C", "D"))


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "users"
    victim.write_text("mine")
    (tmp_path / "users.new").symlink_to(victim)

    with pytest.raises(FileExistsError):
        write(path, {})

    assert victim.read_text() == "mine" and not path.exists()
