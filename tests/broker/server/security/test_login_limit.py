"""How often a wrong password may be said, and from where."""

from oms_journal.broker.server.security.login_attempts import LoginBounds, LoginLimit

BOUNDS = LoginBounds(
    user_failures=3, address_failures=6, wait_seconds=1, wait_seconds_max=8, forget_seconds=100, remembered=50
)
HERE, THERE = "192.0.2.1", "192.0.2.2"


def limited(*failures: tuple[str, str]) -> LoginLimit:
    limit = LoginLimit(BOUNDS)
    for user, address in failures:
        limit.failed(user, address, 0.0)
    return limit


def test_a_few_wrong_passwords_cost_nothing_and_each_further_twice_as_long() -> None:
    limit, waits = LoginLimit(BOUNDS), []
    for _ in range(9):
        waits.append(limit.seconds_to_wait("ALICE", HERE, 0.0))
        limit.failed("ALICE", HERE, 0.0)

    assert waits[:6] == [0, 0, 0, 1, 2, 4]
    assert waits[6:] == [8, 8, 8]


def test_who_guesses_from_one_address_locks_nobody_out_anywhere_else() -> None:
    limit = limited(*[("ALICE", HERE)] * 50)

    assert limit.seconds_to_wait("ALICE", HERE, 0.0)
    assert not limit.seconds_to_wait("ALICE", THERE, 0.0)


def test_who_goes_through_all_users_from_one_address_is_stopped_too() -> None:
    limit = limited(*[(f"USER{n}", HERE) for n in range(6)])

    assert limit.seconds_to_wait("ANOTHER", HERE, 0.0)
    assert not limit.seconds_to_wait("ANOTHER", THERE, 0.0)


def test_who_has_logged_on_from_an_address_is_not_locked_out_by_guesses_there_for_others() -> None:
    limit = LoginLimit(BOUNDS)
    limit.succeeded("ALICE", HERE)
    for n in range(50):
        limit.failed(f"USER{n}", HERE, 0.0)

    assert not limit.seconds_to_wait("ALICE", HERE, 0.0)
    assert limit.seconds_to_wait("BOB", HERE, 0.0)

    for _ in range(3):
        limit.failed("ALICE", HERE, 0.0)
    assert limit.seconds_to_wait("ALICE", HERE, 0.0)


def test_a_right_password_forgets_the_wrong_ones_of_its_user_and_not_those_of_the_address() -> None:
    limit = limited(*[("ALICE", HERE)] * 6)
    limit.succeeded("ALICE", HERE)

    assert not limit.seconds_to_wait("ALICE", HERE, 0.0)
    assert limit.seconds_to_wait("BOB", HERE, 0.0)


def test_waiting_helps_and_after_a_long_time_all_is_forgotten() -> None:
    limit = limited(*[("ALICE", HERE)] * 4)

    assert limit.seconds_to_wait("ALICE", HERE, 0.5) == 1.5
    assert limit.seconds_to_wait("ALICE", HERE, 2.0) == 0
    limit.failed("ALICE", HERE, 2.0)
    assert limit.seconds_to_wait("ALICE", HERE, 2.0) == 4
    limit.failed("ALICE", HERE, 103.0)
    assert limit.seconds_to_wait("ALICE", HERE, 103.0) == 0


def test_an_address_of_ipv6_counts_as_its_network_and_one_of_ipv4_is_the_same_in_either_spelling() -> None:
    limit = limited(*[("ALICE", f"2001:db8:0:1::{n:x}") for n in range(6)], *[("BOB", "::ffff:192.0.2.1")] * 3)

    assert limit.seconds_to_wait("ALICE", "2001:db8:0:1:ffff::1%eth0", 0.0)
    assert not limit.seconds_to_wait("ALICE", "2001:db8:0:2::1", 0.0)
    assert limit.seconds_to_wait("BOB", HERE, 0.0)


def test_what_is_remembered_is_bounded() -> None:
    limit = LoginLimit(BOUNDS)
    for n in range(1000):
        limit.failed(f"USER{n}", f"10.0.{n // 256}.{n % 256}", 0.0)
        limit.succeeded(f"USER{n}", f"10.1.{n // 256}.{n % 256}")

    assert len(limit._of_user) == len(limit._of_address) == len(limit._known) == BOUNDS.remembered
