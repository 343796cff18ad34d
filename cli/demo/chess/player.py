"""A player of `oms chess`, a process of his own: he opens the broker, makes one step, and ends.

On standard input he is told the spool directory, his side, and the moves of the whole game, of which he answers with
the one that is due. On standard output he reports each call with its answer, and at last what became of the step. He
can be killed at any moment: who comes after him finds out how far he came.
"""

from collections.abc import Sequence
from pathlib import Path

from oms_journal.cli.demo.chess.pgn import Side
from oms_journal.cli.demo.chess.scoresheet import Sheet
from oms_journal.cli.demo.chess.step import ATTRIBUTES, BROKER_ID, Said, open_broker, step
from oms_journal.cli.demo.children import heard, report, work


def main() -> None:
    """Make the step that standard input tells; nothing when it tells none, since it was never needed."""
    told = heard()
    if told is not None:
        work(lambda: _play(Path(told["spool"]), Side(told["side"]), told["moves"]))


def _play(spool: Path, side: Side, moves: Sequence[str]) -> None:
    def choose(so_far: Sequence[str]) -> str | None:
        return moves[len(so_far)] if len(so_far) < len(moves) else None

    def say(said: Said) -> None:
        report({"call": said.call.name, "answer": said.answer, "move": said.move})

    with open_broker(spool, BROKER_ID, **ATTRIBUTES) as broker:
        outcome = step(broker, side, Sheet(spool, side), choose, say)
    report({"outcome": outcome.value})


if __name__ == "__main__":
    main()
