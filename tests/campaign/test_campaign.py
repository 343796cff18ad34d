"""The campaign with real processes (`make torture`): what its checks find, and a round of each kind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.campaign.campaign import KINDS, Figures, play
from tests.campaign.checks import Left, promised_nothing, tried, violations
from tests.campaign.clients import ANSWERS, ASKED, FROM, NEWS, PAIRED, TO, WORK
from tests.campaign.records import Records, read
from tests.campaign.soak import RISE_MAX, Look, rises


class Story:
    """Records of clients, told line by line; a line is a tenth of a second after the one before."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._at = 0.0
        self.left = Left()

    def tell(self, who: str, what: str, body: str, queue: str, *, began: float = 0.0, correlation: str = "") -> None:
        self._at += 0.1
        place = "to" if what in ("send", "receipt") else "of"
        line: dict[str, Any] = {"what": what, "who": who, "body": body, "at": self._at, "began": began, place: queue}
        line["correlation"] = correlation
        with (self._directory / f"{who}.record").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def sent(self, body: str, queue: str, who: str = "s") -> None:
        self.tell(who, "send", body, queue)
        self.tell(who, "receipt", body, queue)

    def received(self, body: str, queue: str, who: str = "r", *, began: float = 0.0) -> None:
        for what in ("got", "ack", "acked"):
            self.tell(who, what, body, queue, began=began)

    def read(self) -> Records:
        return read(self._directory)

    def kinds(self) -> list[str]:
        return sorted({text.partition(":")[0] for text in violations(self.read(), self.left)})


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_what_goes_well_breaks_no_promise(story: Story) -> None:
    for queue in (WORK, PAIRED):
        story.sent("p 1", queue)
        story.received("p 1", queue)
    story.sent("s 1", WORK)
    story.left.bodies[WORK].append("s 1")
    story.sent("m 1", FROM)
    story.received("m 1", FROM)
    story.sent("m 1", TO, "mover")
    story.left.bodies[TO].append("m 1")
    story.tell("f", "subscribed", NEWS, "")
    story.sent("n 1", NEWS)
    story.received("n 1", NEWS, "f")
    story.sent("asker 1", ASKED, "asker")
    story.received("asker 1", ASKED)
    story.sent("asker 1", ANSWERS, "r")
    story.tell("asker", "got", "asker 1", ANSWERS, correlation="asker 1")
    story.received("asker 1", ANSWERS, "asker", began=1.0)

    assert story.kinds() == []


def test_what_has_a_receipt_and_is_nowhere_is_lost(story: Story) -> None:
    story.sent("s 1", WORK)
    story.tell("r", "got", "s 1", WORK)
    assert story.kinds() == ["lost"], "who got it has not asked for it to go"


def test_what_nobody_sent_is_invented(story: Story) -> None:
    story.left.bodies[WORK].append("s 1")
    assert story.kinds() == ["invented"]


def test_what_is_there_twice_is_found(story: Story) -> None:
    story.sent("s 1", WORK)
    story.left.bodies[WORK] += ["s 1", "s 1"]
    assert story.kinds() == ["twice"]


@pytest.mark.parametrize("comes_to", ["the store", "another connection", "the same connection"])
def test_what_was_acknowledged_and_comes_again_is_found(story: Story, comes_to: str) -> None:
    story.sent("s 1", WORK)
    story.received("s 1", WORK)
    if comes_to == "the store":
        story.left.bodies[WORK].append("s 1")
    else:
        who, began = ("other", 10.0) if comes_to == "another connection" else ("r", 0.0)
        story.tell(who, "got", "s 1", WORK, began=began)
    assert story.kinds() == ["again"]


def test_what_was_on_its_way_before_the_acknowledgement_is_not(story: Story) -> None:
    story.sent("s 1", WORK)
    story.received("s 1", WORK)
    story.tell("slow", "got", "s 1", WORK, began=0.05)
    assert story.kinds() == []


def test_half_a_transaction_is_found(story: Story) -> None:
    for queue in (WORK, PAIRED):
        story.tell("s", "send", "p 1", queue)
    story.left.bodies[WORK].append("p 1")
    assert story.kinds() == ["half"]


@pytest.mark.parametrize("is_there", [False, True], ids=["nowhere", "in both"])
@pytest.mark.parametrize(("of", "to"), [(FROM, TO), (ASKED, ANSWERS)], ids=["moved", "answered"])
def test_what_was_passed_on_is_in_one_place(story: Story, of: str, to: str, is_there: bool) -> None:
    story.sent("m 1", of)
    story.tell("mover", "send", "m 1", to)
    story.tell("mover", "ack", "m 1", of)
    for queue in (of, to) if is_there else ():
        story.left.bodies[queue].append("m 1")
    assert story.kinds() == ["moved"]


@pytest.mark.parametrize(("who", "correlation"), [("other", "asker 1"), ("asker", "asker 2"), ("asker", "")])
def test_an_answer_that_is_another_ones_or_to_another_question_is_found(
    story: Story, who: str, correlation: str
) -> None:
    story.sent("asker 1", ASKED, "asker")
    story.received("asker 1", ASKED)
    story.sent("asker 1", ANSWERS, "r")
    story.tell(who, "got", "asker 1", ANSWERS, correlation=correlation)
    story.left.bodies[ANSWERS].append("asker 1")
    assert set(story.kinds()) == {"answered"}


@pytest.mark.parametrize(("began", "count"), [(0.0, 1), (9.0, 0)], ids=["before its end", "by a later broker"])
@pytest.mark.parametrize(("asked", "promised"), [("send", "receipt"), ("ack", "acked")])
def test_what_is_promised_without_a_directory_is_found(
    story: Story, asked: str, promised: str, began: float, count: int
) -> None:
    story.sent("s 1", WORK)
    story.tell("s", asked, "s 2", WORK)  # at 0.3
    story.tell("s", promised, "s 2", WORK, began=began)
    gone = [(0.25, 0.35)]

    assert len(promised_nothing(story.read(), gone)) == count
    assert len(tried(story.read(), gone)) == 1
    assert promised_nothing(story.read(), [(0.35, 0.5)]) == [], "it was asked for before"


def test_a_publication_that_a_durable_subscriber_missed_is_found(story: Story) -> None:
    story.sent("n 1", NEWS)
    story.tell("f", "subscribed", NEWS, "")
    story.sent("n 2", NEWS)
    assert story.kinds() == ["not followed"]


def test_an_order_that_was_not_kept_is_found(story: Story) -> None:
    for number in (1, 2):
        story.sent(f"s {number}", WORK)
    for number in (2, 1):
        story.received(f"s {number}", WORK)
    assert story.kinds() == ["order"]


def test_what_rises_all_the_time_is_told_from_what_goes_up_and_down() -> None:
    def looks(memory: Callable[[int], float]) -> list[Look]:
        return [
            Look(seconds=turn, memory_kib=int(memory(turn)), descriptors=9, threads=7, files=5, waiting=turn % 7)
            for turn in range(60)
        ]

    leaking = rises(looks(lambda turn: 70_000 + 250 * turn))["memory_kib"]
    busy = rises(looks(lambda turn: 70_000 + 400 * (turn % 10)))["memory_kib"]
    grown = rises(looks(lambda turn: 70_000 + 20_000 * min(turn, 20) / 20))["memory_kib"]

    assert leaking > RISE_MAX["memory_kib"]
    assert abs(busy) < RISE_MAX["memory_kib"]
    assert abs(grown) < 1
    assert rises(looks(float))["descriptors"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_a_round_of_every_kind_breaks_no_promise(seed: int) -> None:
    figures = Figures()
    play(seed, figures, seconds=20)

    assert figures.violations == []
    assert figures.notes["acked"] > 100
