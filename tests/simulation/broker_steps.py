"""What happens in the simulated world of the broker: steps, and scripts of them from a seed."""

import random
from dataclasses import dataclass

from tests.simulation.world import Script

CALLS = {  # what a step may do, and how often
    "send": 24,
    "receive": 20,
    "syncpoint": 22,
    "answer": 8,
    "end": 3,
    "undo": 1,
    "publish": 9,
    "read": 9,
    "control": 6,
    "subscribe": 5,
    "wait": 4,
    "pass_time": 8,
    "come_or_go": 5,
    "all_at_once": 14,
    "go": 4,
}
CHANGING = {  # what most likely changes the store
    "send": 6,
    "syncpoint": 8,
    "answer": 2,
    "publish": 3,
    "control": 3,
    "subscribe": 1,
    "pass_time": 3,
    "come_or_go": 2,
    "all_at_once": 16,
    "go": 2,
}
BESIDE = {  # what no crash is tried in
    "start_again": 3,
    "lose_or_find": 4,
    "fail": 4,
    "forbid_or_allow": 2,
}
CHORES = {"clean_up": 3, "compact": 3, "vouch": 3}
ENDINGS = ("power cut", "killed")


@dataclass(frozen=True, slots=True)
class Setting:
    """How the world is made; without one, as the defaults say."""

    file_bytes: int = 4096
    group_max: int = 4  # commits that one sync takes
    patience: int = 1  # groups between one look of the tender and the next
    is_forgetful: bool = False  # hardly anything is kept in memory


@dataclass(frozen=True, slots=True)
class Do:
    """Something is done; the number chooses among what makes sense then."""

    what: str
    number: int


@dataclass(frozen=True, slots=True)
class Crash:
    """The process ends, by a power cut or killed, before the n-th change of the disk that a step makes.

    After the step where it makes fewer. `again` are such changes of the starts that follow, which end too.
    """

    ending: str
    during: Do
    change: int
    choice: int  # of what a power cut leaves
    again: tuple[int, ...] = ()


def random_steps(seed: int) -> Script:
    """Return the script of a seed."""
    chance = random.Random(seed)
    file_bytes, is_forgetful = chance.choice((4096, 4096, 8192, 65536)), chance.random() < 0.3
    steps: list[Setting | Do | Crash] = [
        Setting(file_bytes, chance.choice((1, 2, 4, 100)), chance.choice((1, 1, 3, 10)), is_forgetful)
    ]
    names, weights = zip(*(CALLS | CHORES).items(), strict=True)
    changing, changing_weights = zip(*(CHANGING | CHORES).items(), strict=True)
    others, other_weights = zip(*BESIDE.items(), strict=True)
    faults = chance.choice((0.0, 0.1, 0.1))
    crashes = chance.choice((0.05, 0.1, 0.3))
    for _ in range(chance.randint(20, 100)):
        if chance.random() < faults:
            steps.append(Do(chance.choices(others, other_weights)[0], chance.getrandbits(32)))
            continue
        if chance.random() < crashes:
            steps.append(_crash(Do(chance.choices(changing, changing_weights)[0], chance.getrandbits(32)), chance))
        else:
            steps.append(Do(chance.choices(names, weights)[0], chance.getrandbits(32)))
    return steps


def _crash(step: Do, chance: random.Random) -> Crash:
    change = chance.choice((1, 2, 2, 3, chance.randint(1, 12)))
    again = tuple(chance.randint(1, 20) for _ in range(chance.choice((0, 0, 0, 1, 2))))
    return Crash(chance.choice(ENDINGS), step, change, chance.getrandbits(32), again)
