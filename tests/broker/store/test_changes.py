"""One commit as a value, and several of them made one."""

from oms_journal.broker.store.changes import Changes, NewMessage, Put, merge


def test_a_commit_of_nothing_is_empty() -> None:
    assert Changes().is_empty()
    assert not Changes(drops=["key"]).is_empty()
    assert not Changes(delivered=[range(1, 2)]).is_empty()


def test_two_commits_together_keep_their_order_and_numbers_find_their_messages() -> None:
    """EntireX, Using Persistence and Units of Work: UOWID=BOTH is one atomic operation."""
    received = Changes(delivered=[range(1, 4)], drops=["broker/uow/A"])
    sent = Changes(adds=[NewMessage("q", b"a"), NewMessage("q", b"b")], puts=[Put("broker/uow/B", bytes(16), {0: 1})])
    other = Changes(adds=[NewMessage("q", b"c")], puts=[Put("broker/uow/C", bytes(8), {0: 0})], producer="p")

    both = merge([received, sent, other])

    assert [message.payload for message in both.adds] == [b"a", b"b", b"c"]
    assert {put.key: dict(put.numbers_at) for put in both.puts} == {"broker/uow/B": {0: 1}, "broker/uow/C": {0: 2}}
    assert (both.delivered, both.drops, both.producer) == ([range(1, 4)], ["broker/uow/A"], "p")


def test_of_what_is_said_twice_about_a_key_the_last_counts() -> None:
    both = merge([Changes(puts=[Put("k", b"1"), Put("l", b"1")]), Changes(puts=[Put("k", b"2")], drops=["l"])])

    assert [(put.key, put.value) for put in both.puts] == [("k", b"2")]
    assert both.drops == ["l"]
    assert merge([Changes(drops=["k"]), Changes(puts=[Put("k", b"3")])]).drops == []


def test_nothing_together_is_nothing() -> None:
    assert merge([]).is_empty()
