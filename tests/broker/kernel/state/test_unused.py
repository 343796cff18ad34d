"""Names that clients make up: a service or a topic is forgotten once nothing of it is left, and not before."""

import gc
from collections import Counter
from collections.abc import Callable

import pytest

from oms_journal.broker.admin.broker import ServerFacts, statistics_row
from oms_journal.broker.admin.figures import Figures
from oms_journal.broker.attributes.attributes import BUILT_IN, parse_attributes
from oms_journal.broker.block import Function, Option, Reply, ServiceName, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state import unused_names
from oms_journal.broker.kernel.state.conversation import Conversation
from oms_journal.broker.kernel.state.effects import Gone, ReleaseHeld, StoreBack, StoreLost
from oms_journal.broker.kernel.state.service import Registration, Service, WaitingConversations
from oms_journal.broker.kernel.state.topics import Publication, Topic, TopicSubscription
from oms_journal.broker.kernel.state.unit import Owner
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.tables.order import KeyedOrder
from oms_journal.broker.records import Status
from oms_journal.broker.store.latencies import Latencies
from tests.support.broker.kernel_desk import Desk, Fields, Person, Said, attributes
from tests.support.heap import old_heap_frozen as old_heap_frozen
from tests.support.servers.stomp_desk import StompDesk
from tests.support.sweeps import a_sample

pytestmark = pytest.mark.usefixtures("old_heap_frozen")

COUNT = 2_500  # of all uses together
KEPT = 5  # names that stay though nothing is left of them, here
SYNC, COMMIT, BACKOUT, EOC, IMMED = Option.SYNC, Option.COMMIT, Option.BACKOUT, Option.EOC, Option.IMMED
COUNTED = (
    Service,
    Registration,
    WaitingConversations,
    KeyedOrder,
    Conversation,
    Topic,
    TopicSubscription,
    Publication,
    Owner,
)
OPERATOR = 900_000
AROUND = ServerFacts(
    version="",
    run_mode="",
    started=0,
    now=0,
    partner="",
    store_type=None,
    free_bytes=None,
    min_free_space=0,
    refusal=None,
    calls=0,
    latencies=Latencies(),
)


@pytest.fixture(autouse=True)
def _few_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused_names, "NAMES_KEPT", KEPT)


def objects() -> Counter[type]:
    """Return how many there are of what a name brings into being."""
    gc.collect()
    return Counter(type(each) for each in gc.get_objects() if type(each) in COUNTED)


def named(number: int) -> Fields:
    return {"server_class": "MADE", "server_name": "UP", "service": f"{number}"}


def name_of(number: int) -> ServiceName:
    return ("MADE", "UP", f"{number}")


class Names:
    """A broker, who sends and who receives, in services and topics by number."""

    def __init__(self, desk: Desk | None = None) -> None:
        self.desk = desk or Desk()
        self.alice, self.bob = Person(self.desk, "ALICE", "A"), Person(self.desk, "BOB", "B", caller=2)
        self.carl = Person(self.desk, "CARL", "", caller=3)

    @property
    def world(self) -> World:
        return self.desk.kernel.world

    def fill(self) -> None:
        """Let as many names be known as stay anyway."""
        for number in range(KEPT):
            assert self.bob.register(**named(-number)).code is Code.OK
            assert self.bob.call(Function.DEREGISTER, IMMED, **named(-number)).code is Code.OK
            self.publish(-number)

    def send(self, number: int, **fields: object) -> Said:
        return self.alice.send(**{**named(number), **fields})

    def receive(self, number: int, **fields: object) -> Said:
        assert self.bob.register(**named(number)).code is Code.OK
        return self.bob.receive("ANY", **{**named(number), **fields})

    def publish(self, number: int, option: Option = COMMIT) -> Said:
        return self.desk.answers[self.begin_to_publish(number, option)]

    def begin_to_publish(self, number: int, option: Option = COMMIT) -> int:
        """Publish; the answer comes when the store has answered what is before it."""
        return self.alice.start(Function.SEND_PUBLICATION, option, topic=f"T{number}", body=b"x", publication_id="NEW")

    def subscribe(self, number: int, option: Option = Option.NONE, who: Person | None = None) -> Said:
        return (who or self.bob).call(Function.SUBSCRIBE, option, topic=f"T{number}")

    def get(self, number: int) -> Said:
        return self.bob.call(Function.RECEIVE_PUBLICATION, topic=f"T{number}", publication_id="NEW")

    def acknowledge(self, got: Said) -> Code:
        publication_id = got.reply.publication_id
        return self.bob.call(Function.CONTROL_PUBLICATION, COMMIT, publication_id=publication_id).code

    def leave(self, number: int) -> Code:
        return self.bob.call(Function.UNSUBSCRIBE, topic=f"T{number}").code

    def has(self, number: int) -> bool:
        return name_of(number) in self.world.services or f"T{number}" in self.world.topics.topics


# What stays of a name is nothing.


def is_served_and_no_longer(names: Names, number: int) -> None:
    names.bob.register(**named(number))
    names.bob.call(Function.DEREGISTER, IMMED, **named(number))


def is_served_by_who_vanishes(names: Names, number: int) -> None:
    names.carl.register(**named(number))
    names.carl.gone()


def is_refused(names: Names, number: int) -> None:
    assert names.alice.send(option=Option.NONE, **named(number)).code is Code.SERVICE_NOT_REGISTERED


def is_sent_to_and_received(names: Names, number: int) -> None:
    assert names.send(number, option=EOC).code is Code.OK
    got = names.receive(number)
    assert names.bob.sync(COMMIT, got.uowid).code is Code.OK
    names.bob.call(Function.DEREGISTER, IMMED, **named(number))


def is_backed_out(names: Names, number: int) -> None:
    sent = names.send(number, option=SYNC)
    assert names.alice.sync(BACKOUT, sent.uowid).code is Code.OK
    names.alice.call(Function.EOC, conv_id=sent.conv_id)


def is_cancelled(names: Names, number: int) -> None:
    assert names.alice.sync(Option.CANCEL, names.send(number, option=EOC).uowid).code is Code.OK


def is_published_to(names: Names, number: int) -> None:
    assert names.publish(number).code is Code.OK


def is_asked_for(names: Names, number: int) -> None:
    last = names.alice.call(Function.CONTROL_PUBLICATION, Option.LAST, topic=f"T{number}")
    assert last.code is Code.UOW_NOT_FOUND


def is_subscribed_to(names: Names, number: int) -> None:
    assert names.subscribe(number, Option.DURABLE if number % 2 else Option.NONE).code is Code.OK
    names.publish(number)
    assert names.acknowledge(names.get(number)) is Code.OK
    names.publish(number)
    assert names.leave(number) is Code.OK


def is_subscribed_to_by_who_vanishes(names: Names, number: int) -> None:
    carl = Person(names.desk, "CARL", "", caller=3)
    assert names.subscribe(number, who=carl).code is Code.OK
    names.publish(number)
    carl.gone()


def is_published_to_in_part(names: Names, number: int) -> None:
    begun = names.publish(number, SYNC)
    publication_id = begun.reply.publication_id
    assert names.alice.call(Function.CONTROL_PUBLICATION, BACKOUT, publication_id=publication_id).code is Code.OK


USES: list[Callable[[Names, int], None]] = [
    is_served_and_no_longer,
    is_served_by_who_vanishes,
    is_refused,
    is_sent_to_and_received,
    is_backed_out,
    is_cancelled,
    is_published_to,
    is_asked_for,
    is_subscribed_to,
    is_subscribed_to_by_who_vanishes,
    is_published_to_in_part,
]


@a_sample(4)
@pytest.mark.parametrize("use", USES)
def test_of_a_made_up_name_nothing_stays(use: Callable[[Names, int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oms_journal.broker.kernel.conversations.places.ENDED_MAX", 20)
    monkeypatch.setattr("oms_journal.broker.kernel.topics.removal.PAST_MAX", 20)
    names = Names()
    names.fill()
    for number in range(1, 31):
        use(names, number)
    before = objects()
    for number in range(31, 31 + COUNT // len(USES)):
        use(names, number)
        names.desk.answers.clear()
        names.desk.paper.commits.clear()
    assert objects() == before
    assert (len(names.world.services), len(names.world.topics.topics)) == (KEPT, KEPT)
    assert [len(who.topics) for who in names.world.participants.values()] == [0] * len(names.world.participants)
    assert len(names.world.topics.past) <= 20


@pytest.mark.whole
def test_of_thousands_of_queues_and_topics_of_a_stomp_client_nothing_stays() -> None:
    stomp = StompDesk()
    world = stomp.desk.kernel.world
    bob = stomp.connect("BOB")
    for number in range(600):
        place = f"/{'topic' if number % 2 else 'queue'}/reply-{number}"
        bob.subscribe(place)
        bob.send(place)
        assert bob.heard[-1].command == "MESSAGE"
        bob.take("UNSUBSCRIBE", id="s")
        bob.heard.clear()
        stomp.desk.answers.clear()
    assert (len(world.services), len(world.topics.topics)) == (KEPT, KEPT)
    assert not (world.conversations or world.active or world.instances or world.topics.subscriptions)


# What is left stays.


def is_registered(names: Names, number: int) -> Callable[[], object]:
    names.bob.register(**named(number))
    return lambda: names.bob.call(Function.DEREGISTER, IMMED, **named(number))


def has_a_unit_that_waits(names: Names, number: int) -> Callable[[], object]:
    names.send(number, option=EOC)
    return lambda: _take_and_go(names, number)


def has_one_that_is_not_stored(names: Names, number: int) -> Callable[[], object]:
    names.send(number, option=EOC, store=Store.OFF)
    return lambda: _take_and_go(names, number)


def _take_and_go(names: Names, number: int) -> None:
    got = names.receive(number)
    assert got.body == b"e4"
    assert names.bob.sync(COMMIT, got.uowid).code is Code.OK
    names.bob.call(Function.DEREGISTER, IMMED, **named(number))


def has_one_that_is_begun(names: Names, number: int) -> Callable[[], object]:
    sent = names.send(number, option=SYNC)

    def end() -> None:
        names.alice.sync(BACKOUT, sent.uowid)
        names.alice.call(Function.EOC, conv_id=sent.conv_id)

    return end


def has_a_conversation(names: Names, number: int) -> Callable[[], object]:
    sent = names.send(number)
    _take_and_go(names, number)
    return lambda: names.alice.call(Function.EOC, conv_id=sent.conv_id)


def has_a_durable_subscriber(names: Names, number: int) -> Callable[[], object]:
    names.subscribe(number, Option.DURABLE)
    names.desk.give(Gone(2))
    names.bob = Person(names.desk, "BOB", "B", caller=2)
    return lambda: names.leave(number)


def has_a_subscriber(names: Names, number: int) -> Callable[[], object]:
    names.subscribe(number)
    return lambda: names.leave(number)


def has_a_publication_that_is_begun(names: Names, number: int) -> Callable[[], object]:
    begun = names.publish(number, SYNC).reply.publication_id
    return lambda: names.alice.call(Function.CONTROL_PUBLICATION, BACKOUT, publication_id=begun)


def has_a_publication_on_its_way(names: Names, number: int) -> Callable[[], object]:
    names.subscribe(number)
    names.desk.is_slow = True
    names.alice.start(Function.SEND_PUBLICATION, COMMIT, topic=f"T{number}", body=b"x", publication_id="NEW")
    assert names.leave(number) is Code.OK

    def arrive() -> None:
        names.desk.is_slow = False
        names.desk.settle()

    return arrive


def has_one_that_leaves_the_store(names: Names, number: int) -> Callable[[], object]:
    names.subscribe(number)
    names.publish(number)
    names.desk.is_slow = True
    assert names.leave(number) is Code.OK
    names.desk.fail()
    names.desk.is_slow = False
    names.desk.tick()
    return lambda: names.desk.give(StoreBack())


@pytest.mark.parametrize(
    "use",
    [
        is_registered,
        has_a_unit_that_waits,
        has_one_that_is_not_stored,
        has_one_that_is_begun,
        has_a_conversation,
        has_a_durable_subscriber,
        has_a_subscriber,
        has_a_publication_that_is_begun,
        has_a_publication_on_its_way,
        has_one_that_leaves_the_store,
    ],
)
def test_a_name_stays_as_long_as_anything_of_it_is_left(use: Callable[[Names, int], Callable[[], object]]) -> None:
    names = Names()
    names.fill()
    end = use(names, 1)
    assert names.has(1)
    for number in range(2, 40):
        is_served_and_no_longer(names, number)
        names.begin_to_publish(number)  # without the store it is refused
    assert names.has(1)
    end()
    names.desk.tick()
    assert not names.has(1)
    assert names.desk.paper.messages == {}
    assert (len(names.world.services), len(names.world.topics.topics)) == (KEPT, KEPT)


@pytest.mark.parametrize("is_held", [False, True])
def test_what_waited_before_a_restart_waits_in_its_service_and_topic(is_held: bool) -> None:
    names = Names()
    names.fill()
    for number in range(1, 21):
        names.subscribe(number, Option.DURABLE)
        names.publish(number)
        names.send(number, option=EOC)
    again = Names(names.desk.restored() if is_held else names.desk.restart())
    assert (len(again.world.services), len(again.world.topics.topics)) == (20, 20)
    for number in range(30, 60):
        is_served_and_no_longer(again, number)
        is_published_to(again, number)
    if is_held:
        assert again.receive(1).code is not Code.OK
        again.bob.call(Function.DEREGISTER, IMMED, **named(1))
        uowids = tuple(sorted(again.desk.paper.uows()))
        again.desk.give(ReleaseHeld(OPERATOR, uowids))
        assert again.desk.answers[OPERATOR].code is Code.OK
    assert len(again.world.services) == 20
    for number in range(1, 21):
        _take_and_go(again, number)
    assert {*again.world.services} == {name_of(number) for number in range(1, KEPT + 1)}
    assert len(again.world.topics.topics) == 20


def test_what_the_attributes_name_and_what_was_first_stay_with_their_counters() -> None:
    text = BUILT_IN.replace("SERVICE=*", "SERVICE=*\n  CLASS=MADE SERVER=UP SERVICE=100")
    text = text.replace("TOPIC=*", "TOPIC=T100 ALLOW-DURABLE=YES\n  TOPIC=*")
    names = Names(Desk(parse_attributes(text, broker_id="")))
    for number in (1, 100, *range(2, 50), 100):
        is_sent_to_and_received(names, number)
        is_published_to(names, number)
    assert {int(name[2]) for name in names.world.services} == {100, *range(1, KEPT)}
    assert names.world.services[name_of(100)].accepted == 2
    assert names.world.topics.topics["T100"].published == 2


def test_counters_begin_anew_with_a_forgotten_name_and_their_sum_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oms_journal.broker.admin.figures.NAMED_MAX", 3)
    names = Names()
    totals = []
    for number in (*range(1, 30), 20, 1):
        is_sent_to_and_received(names, number)
        is_subscribed_to(names, number)
        meters = Figures()
        for _ in meters.read(names.world):
            pass
        sums = [sum(row["accepted"] for row in meters.services) + meters.other_services.get("accepted", 0)]
        sums += [sum(row["processed"] for row in meters.services) + meters.other_services.get("processed", 0)]
        sums += [sum(row["published"] for row in meters.topics) + meters.other_topics.get("published", 0)]
        sums += [sum(row["ended"] for row in meters.topics) + meters.other_topics.get("ended", 0)]
        totals.append(sums)
        row = statistics_row(names.world, AROUND)
        assert [row["accepted"], row["processed"], row["published"], row["publications_ended"]] == sums
    assert totals == [[count, count, 2 * count, 2 * count] for count in range(1, 32)]


def test_a_publisher_is_told_of_its_last_publication_though_the_topic_is_forgotten() -> None:
    names = Names()
    names.fill()
    last = [names.publish(number) for number in (1, 2)]
    assert not names.has(1)

    def asked(option: Option, **fields: str) -> Reply:
        return names.alice.call(Function.CONTROL_PUBLICATION, option, **fields).reply

    for number, said in enumerate(last, 1):
        identifier = said.reply.publication_id
        for reply in (asked(Option.LAST, topic=f"T{number}"), asked(Option.QUERY, publication_id=identifier)):
            assert (reply.topic, reply.publication_id) == (f"T{number}", identifier)
            assert reply.uow_status is Status.PROCESSED
    assert asked(Option.LAST).publication_id == last[1].reply.publication_id


def test_two_of_one_user_keep_their_own_subscription_when_the_shared_one_ends() -> None:
    names = Names()
    names.fill()
    other = Person(names.desk, "CARL", "", caller=4)
    assert names.subscribe(1, who=other).code is Code.OK
    assert names.subscribe(1, Option.DURABLE, who=names.carl).code is Code.OK
    names.publish(1)
    assert other.call(Function.RECEIVE_PUBLICATION, topic="T1", publication_id="NEW").code is Code.OK
    assert names.carl.call(Function.UNSUBSCRIBE, topic="T1").code is Code.OK
    assert names.has(1)
    other.gone()
    assert not names.has(1)
    assert not names.world.topics.subscriptions


def test_without_the_store_a_name_is_forgotten_as_with_it() -> None:
    names = Names(Desk(attributes()))
    names.fill()
    names.desk.give(StoreLost("gone"))
    for number in range(1, 30):
        is_refused(names, number)
        names.send(number, option=EOC, store=Store.BROKER)
        names.subscribe(number, Option.DURABLE)
    assert (len(names.world.services), len(names.world.topics.topics)) == (KEPT, KEPT)
