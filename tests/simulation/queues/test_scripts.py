"""Scripts of the world "queues" that chance makes seldom."""

from tests.simulation.faults.all_faults import FAULTS
from tests.simulation.playing import play_script
from tests.simulation.queues.steps import Add, Deliver, Look, Take
from tests.simulation.worlds import WORLDS


def test_a_lease_that_ends_while_its_commit_is_on_its_way_is_seen_though_the_writer_makes_an_error_of_it() -> None:
    script = [Add(0), Add(0), Take(0, 2.0), Deliver(0, seconds=5.0), Look()]

    assert play_script(WORLDS["queues"], script).failure is None
    with FAULTS["a-lease-ends-while-its-commit-is-on-its-way"].made():
        failure = play_script(WORLDS["queues"], script).failure
    assert failure is not None and failure.promise.startswith("take hands out the first message")
