"""A whole game of chess-by-mail between processes that never run at the same time, with kills, and the verdict on it.

The sides are started in turn, each with a broker of its own on the one spool directory: a step that ends is a restart
of the broker, a step that is killed a crash of it. A side that was killed is started again until it ends by itself; it
is not told what its predecessor did. Now and then a side is started when it has nothing to do, as people do who wait
for mail. In the end each side's scoresheet, written from what the broker delivered, is compared with the game.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from oms_journal.cli.demo.chess.pgn import Game, Side, side_at
from oms_journal.cli.demo.chess.scoresheet import Score, Sheet
from oms_journal.cli.demo.chess.step import Call, Outcome
from oms_journal.cli.demo.children import Child
from oms_journal.database.view import DatabaseView

# A step is killed after one of these calls, or in the opening of the broker, which takes longest.
Moments = tuple[Call | None, ...]
BEGINNING: Moments = (None, Call.LOGON, Call.LAST)
FIRST_MOVE: Moments = (*BEGINNING, Call.SEND_FIRST)
ANSWER: Moments = (*BEGINNING, Call.RECEIVE, Call.RECEIVE, Call.SEND, Call.SEND, Call.COMMIT_BOTH)
RESULT: Moments = (*BEGINNING, Call.RECEIVE, Call.COMMIT)
HESITATION_SECONDS = 0.003  # at most so long after it
OPENING_SECONDS = 0.03
VISITS_SHARE = 10  # one step in so many is followed by a visit in vain


@dataclass(frozen=True, slots=True)
class Kill:
    """When a step is to be killed."""

    after: Call | None  # None: while the broker is opened
    hesitation: float  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchSettings:
    """What is to be played, and how often it is disturbed."""

    spool: Path
    game: Game
    kills: int
    seed: int


@dataclass(frozen=True, slots=True)
class Visit:
    """One process: its calls with their answers and moves, and what became of them; no outcome: it was killed."""

    side: Side
    place: int  # of the move that is due, in the list of moves
    calls: tuple[tuple[Call, str, str], ...]
    outcome: Outcome | None
    is_late: bool = False  # it finds that who was killed before it had made the move

    def answer(self, call: Call) -> tuple[str, str] | None:
        """Return what a call was answered last, and the move with it; None when it was not made."""
        return next(((answer, move) for made, answer, move in reversed(self.calls) if made is call), None)

    def as_dict(self) -> dict[str, Any]:
        return {
            "side": self.side.value,
            "place": self.place,
            "calls": [{"call": call.value, "answer": answer, "move": move} for call, answer, move in self.calls],
            "outcome": "killed" if self.outcome is None else self.outcome.value,
        }


@dataclass(slots=True, kw_only=True)
class Played:
    """What was seen."""

    settings: MatchSettings
    visits: list[Visit] = field(default_factory=list)
    scores: dict[Side, Score] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    is_over: bool = False
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the game was played to its end, and everything is as it should be."""
        return self.is_over and not self.findings

    @property
    def kills(self) -> int:
        return sum(visit.outcome is None for visit in self.visits)

    def as_dict(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "holds": self.holds,
            "findings": self.findings,
            "spool": str(settings.spool),
            "seed": settings.seed,
            "game": settings.game.tags,
            "moves": list(settings.game.moves),
            "recorded": {side.value: score.moves for side, score in self.scores.items()},
            "deliveries": {side.value: score.deliveries for side, score in self.scores.items()},
            "kills": self.kills,
            "visits": [visit.as_dict() for visit in self.visits],
            "seconds": round(self.seconds, 6),
        }


class Match:
    """A game that is played. `watch` is called with each visit that is over."""

    def __init__(self, settings: MatchSettings, watch: Callable[[Visit], None]) -> None:
        self._settings = settings
        self._watch = watch
        self._random = random.Random(settings.seed)
        self._played = Played(settings=settings)
        count = len(settings.game.moves)
        self._kills = Counter(self._random.randrange(count + 1) for _ in range(settings.kills))  # by place
        self._in_vain = set(self._random.sample(range(count), count // VISITS_SHARE))

    def run(self) -> Played:
        """Play the game, up to the first thing that is not as it should be. Failure when a player cannot play."""
        began = time.perf_counter()
        with ExitStack() as self._children:
            self._next = self._child()
            for place in range(len(self._settings.game.moves) + 1):
                self._play(place)
                if self._played.findings:
                    break
            else:
                self._played.is_over = True
        if self._played.is_over:
            self._compare()
        self._played.seconds = time.perf_counter() - began
        return self._played

    def _child(self) -> Child:
        """Return a player who waits to be told what to do: it takes longer to start than to move."""
        return self._children.enter_context(Child("oms_journal.cli.demo.chess.player", "a player"))

    def _play(self, place: int) -> None:
        """Let the side whose turn it is make its move, however often it is killed."""
        is_last = place == len(self._settings.game.moves)
        due, afterwards = (Outcome.ENDED, Outcome.OVER) if is_last else (Outcome.MOVED, Outcome.WAITS)
        moments = RESULT if is_last else ANSWER if place else FIRST_MOVE
        may_be, visits_left = {due}, 1 + (place in self._in_vain)
        while visits_left or self._kills[place]:
            visit = self._visit(place, self._kill(moments) if self._kills[place] else None)
            visit = replace(visit, is_late=visit.outcome is afterwards and due in may_be)
            self._played.visits.append(visit)
            self._watch(visit)
            if visit.outcome is None:
                self._kills[place] -= 1
                may_be.add(afterwards)  # its commit may have got through
            elif visit.outcome in may_be:
                visits_left = max(0, visits_left - 1)
                may_be, moments = {afterwards}, BEGINNING  # however often it is started again
            else:
                what = f"is {visit.outcome.value!r}, and {due.value!r} is due"
                self._played.findings.append(f"{visit.side.value} at move {place // 2 + 1} {what}")
                return

    def _kill(self, moments: Moments) -> Kill:
        after = self._random.choice(moments)
        return Kill(after, self._random.uniform(0, OPENING_SECONDS if after is None else HESITATION_SECONDS))

    def _visit(self, place: int, kill: Kill | None) -> Visit:
        """Start a side, and perhaps kill it."""
        child, self._next = self._next, self._child()
        side, calls, outcome = side_at(place), [], None
        with child:
            settings = self._settings
            child.tell({"spool": str(settings.spool), "side": side.value, "moves": settings.game.moves})
            if kill is not None and kill.after is None:
                time.sleep(kill.hesitation)
                child.kill()
            for line in child.lines():
                if "outcome" in line:
                    outcome = Outcome(line["outcome"])
                    continue
                call = Call[line["call"]]
                calls.append((call, line["answer"], line["move"]))
                if kill is not None and call is kill.after:
                    time.sleep(kill.hesitation)
                    child.kill()
            if child.was_killed:
                outcome = None
            else:
                child.check()
        return Visit(side, place, tuple(calls), outcome)

    def _compare(self) -> None:
        played, game = self._played, self._settings.game
        played.scores = {side: Sheet(self._settings.spool, side).score for side in Side}
        played.findings += differences(game.moves, played.scores)
        with DatabaseView.open(self._settings.spool) as store:
            left = store.undelivered_count()
        if left:
            played.findings.append(f"the game is over, and {left} of its messages still wait in the store")


def differences(moves: Sequence[str], scores: dict[Side, Score]) -> list[str]:
    """Return in what the scoresheets are not as the game and as each other."""
    found = []
    for side, score in scores.items():
        if score.moves != list(moves):
            place = next(
                (at for at, pair in enumerate(zip(score.moves, moves, strict=False)) if pair[0] != pair[1]),
                min(len(score.moves), len(moves)),
            )
            recorded, played = (dict(enumerate(each)).get(place, "nothing") for each in (score.moves, moves))
            found.append(f"{side.value} has recorded {recorded} at move {place // 2 + 1}, and {played} was played")
        found += [f"{side.value} was handed out {each.move} again, after it had committed it" for each in score.again]
        if score.heard is not None or score.reply is not None:
            found.append(f"{side.value} has recorded a move that it does not know to be committed")
        if score.received != scores[side.other].sent:
            found.append(f"what {side.value} has received are not the units of work that {side.other.value} has sent")
    return found
