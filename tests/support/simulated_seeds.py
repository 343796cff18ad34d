"""Play some seeds of a simulated world in a test: nothing may be broken."""

from tests.simulation.playing import play_seed
from tests.simulation.world import World


def assert_nothing_breaks(world: World, seed: int) -> None:
    failure = play_seed(world, seed).failure
    command = f".venv/bin/python -m tests.simulation --world {world.name} --replay {seed}"
    assert failure is None, f"{failure.promise}\n{failure.found}\nplay it again: {command}"
