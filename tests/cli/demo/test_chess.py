"""`oms chess`: games as a PGN has them, each step of the manual's algorithm, crashes in it, and whole games.

What a person sees of a whole game, and Ctrl-C, are left to the whole.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oms_journal import MessageDatabase
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import Status
from oms_journal.cli.demo.chess.match import Match, MatchSettings, Played, Visit, differences
from oms_journal.cli.demo.chess.pgn import OPERA, Game, PgnError, Side, numbered, parse, read, written
from oms_journal.cli.demo.chess.scoresheet import Score, Sheet, sheet_path
from oms_journal.cli.demo.chess.step import (
    ATTRIBUTES,
    BROKER_ID,
    SERVICE,
    TOKEN,
    Call,
    Outcome,
    Said,
    open_broker,
    step,
)
from oms_journal.cli.failures import Failure
from tests.support.cli_runner import command_line, environment, oms, oms_json
from tests.support.sweeps import a_sample, for_each

WHITE, BLACK = Side.WHITE, Side.BLACK
OPERA_MOVES = [
    *("e4", "e5", "Nf3", "d6", "d4", "Bg4", "dxe5", "Bxf3", "Qxf3", "dxe5", "Bc4", "Nf6", "Qb3", "Qe7", "Nc3", "c6"),
    *("Bg5", "b5", "Nxb5", "cxb5", "Bxb5+", "Nbd7", "O-O-O", "Rd8", "Rxd7", "Rxd7", "Rd1", "Qe6", "Bxd7+", "Nxd7"),
    *("Qb8+", "Nxb8", "Rd8#", "1-0"),
]
SHORT = ("f3", "e5", "g4", "Qh4#", "0-1")
SHORTEST = ("e4", "e5", "1/2-1/2")


# Games.


def test_the_game_that_is_played_is_the_one_at_the_opera() -> None:
    game = read(OPERA)

    assert list(game.moves) == OPERA_MOVES
    assert game.result == game.tags["Result"] == "1-0"
    assert game.tags["White"] == "Morphy, Paul"


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ("1. e4 e5 1/2-1/2", "e4 e5 1/2-1/2"),
        ("1.e4 e5 2.Nf3 *", "e4 e5 Nf3 *"),
        ("e4 e5 Nf3 0-1", "e4 e5 Nf3 0-1"),
        ("1 e4 1... e5 2 . Nf3 2 ... Nc6 *", "e4 e5 Nf3 Nc6 *"),
        ("1. e4 {the best (by test) 1-0} e5 ; 2. f4 1-0\n 2. Nc3 *", "e4 e5 Nc3 *"),
        ("1. e4 (1. d4 d5 (1... Nf6 {; (} 2. c4) 2. c4) 1... e5 *", "e4 e5 *"),
        ("% 1. d4\n1. e4 $1 e5 $13 *", "e4 e5 *"),
        ("1. e4!? e5?? 2. Qh5?! Ke7!! 3. Qxe5# 1-0", "e4 e5 Qh5 Ke7 Qxe5# 1-0"),
        ("1. 0-0 0-0-0+ *", "O-O O-O-O+ *"),
        ("1. e8=Q+ axb1N 2. R1xa8 Qd4d1 *", "e8=Q+ axb1N R1xa8 Qd4d1 *"),
        ('\ufeff[White "A \\"B\\" \\\\"]\r\n[Black "C"]\r\n\r\n1. e4\r\n*\r\n', "e4 *"),
        ('1. e4 1-0\n\n[White "another"]\n1. nonsense', "e4 1-0"),
        ("*", "*"),
    ],
)
def test_a_game_is_read_without_what_is_said_about_it(text: str, moves: str) -> None:
    assert " ".join(parse(text).moves) == moves


def test_a_tag_is_read_with_what_is_escaped_in_it() -> None:
    assert parse('[White "A \\"B\\" \\\\"] *').tags == {"White": 'A "B" \\'}


@for_each(
    ("text", "said"),
    [
        ("", "there is no game in it"),
        ("1. e4 e5", "no result at its end"),
        ("1. e4\ne5 2. Nxx3 *", "line 2: Nxx3 is no move"),
        ("1. e4\n\n2. e5 *", "line 3: move number 2 where 1 is due"),
        ("1... e5 *", "white's turn"),
        ("1. e4 e5 {never\nended", "line 1: a comment does not end"),
        ("1. e4 (1. d4 *", "line 1: a variation does not end"),
        ("1. e4) *", "line 1: a variation ends that has not begun"),
        ("[White Morphy] *", 'not of the form [Name "value"]'),
        ('1. e4 [White "x"] *', "a tag before the game has its result"),
        ('[SetUp "1"]\n[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n*', "line 2: a game that begins from a position of its own"),
        ("1. e4 ] *", "']' has no place here"),
        ("1. e4 \0 *", "'\\x00' has no place in a game"),
        ("\x1b[31m1. e4 *", "'\\x1b' has no place in a game"),
        ("1. Qh5# Ke7 *", "Ke7 comes after Qh5#"),
        ("1. e2 *", "no move of white's pawns"),
        ("1. e4 e7 *", "no move of black's pawns"),
        ("1. e8 *", "last row"),
        ("1. e4=Q *", "last row"),
        ("1. e4e5 *", "no move"),
        ("1. N\u200bf3 *", "no move"),
    ],
)
def test_what_is_no_game_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(PgnError) as caught:
        parse(text)

    assert said in str(caught.value)


def test_every_cut_of_a_game_is_refused_or_read_as_far_as_it_goes() -> None:
    text = OPERA.read_text()

    for end in range(len(text)):
        try:
            moves = parse(text[:end]).moves
        except PgnError:
            continue
        assert list(moves) == OPERA_MOVES, end


def test_bytes_of_the_specification_s_character_set_are_read(tmp_path: Path) -> None:
    path = tmp_path / "game.pgn"
    path.write_bytes('[White "Réti"]\n1. Nf3 *'.encode("latin-1"))

    assert read(path).tags == {"White": "Réti"}


def test_moves_are_shown_as_a_person_writes_them() -> None:
    assert numbered(["e4", "e5", "Nf3"]) == "1. e4 e5 2. Nf3"
    assert numbered(["e4", "e5", "1-0"]) == "1. e4 e5 1-0"
    assert numbered([]) == ""
    assert (written("0-0+!"), written("1-0"), written("castle")) == ("O-O+", "1-0", None)


# One step.


class Desk:
    """The place of a game: its spool directory, and the two who come to it."""

    def __init__(self, folder: Path, moves: Sequence[str] = SHORT) -> None:
        self.folder = folder
        self.spool = folder / "spool"
        self.moves = moves
        self.calls: list[Said] = []

    def choose(self, so_far: Sequence[str]) -> str | None:
        return self.moves[len(so_far)] if len(so_far) < len(self.moves) else None

    def sit(self, broker: Broker, side: Side, *, looks: bool = False) -> Outcome:
        """Make a step of the side on a broker."""
        self.calls.clear()
        choose: Callable[[Sequence[str]], str | None] = (lambda _: None) if looks else self.choose
        return step(broker, side, Sheet(self.spool, side), choose, self.calls.append)

    def come(self, side: Side, *, looks: bool = False) -> Outcome:
        """Make a step of the side, with a broker of its own."""
        with open_broker(self.spool, BROKER_ID, **ATTRIBUTES) as broker:
            return self.sit(broker, side, looks=looks)

    def play(self) -> None:
        """Play to the end, from wherever it is."""
        for _ in range(2 * len(self.moves) + 4):
            for side in Side:
                if self.come(side) in (Outcome.ENDED, Outcome.OVER):
                    self.come(side.other)
                    return
        raise AssertionError("it does not end")

    def scores(self) -> dict[Side, Score]:
        return {side: Sheet(self.spool, side).score for side in Side}

    def answers(self, call: Call) -> list[str]:
        return [said.answer for said in self.calls if said.call is call]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_each_step_makes_the_calls_of_the_manual(desk: Desk) -> None:
    """EntireX, Using Persistence and Units of Work, "Chess-by-mail"."""
    seen = []
    for side in (WHITE, BLACK, WHITE, BLACK, WHITE, BLACK):
        outcome = desk.come(side)
        seen.append((side, outcome, [f"{said.call.value} {said.answer} {said.move}".strip() for said in desk.calls]))

    log_on, log_off, register, deregister = (
        f"{name} 00000000" for name in ("LOGON", "LOGOFF", "REGISTER", "DEREGISTER")
    )

    def answer(received: str, sent: str) -> list[str]:
        return [
            f"RECEIVE OPTION=SYNC RECV_ONLY {received}",
            f"SEND OPTION=SYNC RECEIVED {sent}",
            f"SYNCPOINT OPTION=COMMIT,UOWID=BOTH ACCEPTED {sent}",
        ]

    last, none = "SYNCPOINT OPTION=LAST PROCESSED", "SYNCPOINT OPTION=LAST 00780305"
    assert seen == [
        (WHITE, Outcome.MOVED, [log_on, none, "SEND OPTION=COMMIT,CID=NEW ACCEPTED f3", log_off]),
        (BLACK, Outcome.MOVED, [log_on, register, none, *answer("f3", "e5"), deregister, log_off]),
        (WHITE, Outcome.MOVED, [log_on, last, *answer("e5", "g4"), log_off]),
        (BLACK, Outcome.MOVED, [log_on, register, last, *answer("g4", "Qh4#"), deregister, log_off]),
        (WHITE, Outcome.MOVED, [log_on, last, *answer("Qh4#", "0-1"), log_off]),
        (
            *(BLACK, Outcome.ENDED),
            [
                *(log_on, register, last, "RECEIVE OPTION=SYNC RECV_ONLY 0-1", "SYNCPOINT OPTION=COMMIT PROCESSED"),
                *("EOC 00000000", deregister, log_off),
            ],
        ),
    ]
    assert differences(SHORT, desk.scores()) == []
    assert (desk.come(WHITE), desk.come(BLACK)) == (Outcome.OVER, Outcome.OVER)


def test_who_has_moved_waits_and_who_comes_first_as_black_finds_no_game(desk: Desk) -> None:
    assert desk.come(BLACK) is Outcome.NO_GAME
    assert desk.come(WHITE, looks=True) is Outcome.NO_GAME
    assert desk.come(WHITE) is Outcome.MOVED
    assert desk.come(WHITE) is Outcome.WAITS
    assert desk.answers(Call.LAST) == ["ACCEPTED"]


def test_a_move_that_the_other_side_is_about_to_answer_is_waited_for(desk: Desk) -> None:
    with open_broker(desk.spool, BROKER_ID, **ATTRIBUTES) as broker:
        desk.sit(broker, WHITE)
        with broker.session("BLACK", token=TOKEN) as black:
            black.register(SERVICE)
            assert black.receive_unit(SERVICE, which="NEW") is not None
            assert desk.sit(broker, WHITE) is Outcome.WAITS
            assert desk.answers(Call.LAST) == ["DELIVERED"]


def test_a_move_that_nobody_received_within_its_lifetime_is_lost(desk: Desk) -> None:
    given: dict[str, Any] = {**ATTRIBUTES, "uwtime": "1S", "tick_seconds": 0.02}
    with open_broker(desk.spool, BROKER_ID, **given) as broker:
        desk.sit(broker, WHITE)
        outcome = Outcome.WAITS
        while outcome is Outcome.WAITS:
            time.sleep(0.05)
            outcome = desk.sit(broker, WHITE)

        assert (outcome, desk.answers(Call.LAST)) == (Outcome.LOST, ["TIMEOUT"])
        assert desk.sit(broker, BLACK) is Outcome.NO_GAME


def test_who_only_looks_gives_the_move_back(desk: Desk) -> None:
    desk.come(WHITE)

    assert [desk.come(BLACK, looks=True) for _ in range(3)] == [Outcome.TO_MOVE] * 3
    assert desk.come(WHITE) is Outcome.WAITS
    assert desk.come(BLACK) is Outcome.MOVED
    desk.play()
    assert differences(SHORT, desk.scores()) == []
    assert desk.scores()[BLACK].deliveries == len(desk.scores()[BLACK].received) + 3


def test_what_is_no_move_is_given_back_and_said(desk: Desk) -> None:
    with open_broker(desk.spool, BROKER_ID, **ATTRIBUTES) as broker, broker.session("WHITE", token=TOKEN) as white:
        unit = white.send(SERVICE, b"Knight to king's bishop three")
        with pytest.raises(Failure, match="is no move"):
            desk.sit(broker, BLACK)
        assert white.query(unit.uowid).status is Status.ACCEPTED


# Crashes.


@contextmanager
def crash_images(desk: Desk, folder: Path) -> Iterator[list[Desk]]:
    """Yield what a crash right after each call of the block would leave, as desks of their own."""
    found: list[Desk] = []

    class Copying(list[Said]):
        def append(self, said: Said) -> None:
            super().append(said)
            shutil.copytree(desk.folder, folder / str(len(found)))
            found.append(Desk(folder / str(len(found)), desk.moves))

    calls, desk.calls = desk.calls, Copying()
    try:
        yield found
    finally:
        desk.calls = calls


@pytest.mark.whole
@pytest.mark.parametrize("place", range(len(SHORTEST) + 1))
def test_a_crash_after_any_call_leaves_a_game_that_goes_on(
    place: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    desk = Desk(tmp_path, SHORTEST)
    for before in range(place):
        desk.come(Side.BLACK if before % 2 else Side.WHITE)

    with crash_images(desk, tmp_path_factory.mktemp("crashed")) as images:
        desk.come(Side.BLACK if place % 2 else Side.WHITE)

    assert len(images) >= 4
    for image in images:
        image.play()
        assert differences(SHORTEST, image.scores()) == [], image.folder.name


@pytest.mark.parametrize("driver", ["JOURNAL", "SQLITE"])
def test_an_answer_that_was_committed_with_a_first_receive_is_there_after_a_restart(
    driver: str, tmp_path: Path
) -> None:
    """The receiver's first commit binds the conversation, and writes anew what of it is being sent."""
    given: dict[str, Any] = {"broker_id": BROKER_ID, "uwstatp": "10", "pstore_type": driver}
    with Broker.open(tmp_path / "spool", **given) as broker, broker.session("BLACK", token=TOKEN) as black:
        with broker.session("WHITE", token=TOKEN) as white:
            conv_id = white.send(SERVICE, b"e4").conv_id
        black.register(SERVICE)
        unit = black.receive_unit(SERVICE, which="NEW")
        assert unit is not None
        unit.answer(b"e5")
        assert unit.commit().status is Status.ACCEPTED

    with Broker.open(tmp_path / "spool", **given) as broker, broker.session("WHITE", token=TOKEN) as white:
        answer = white.receive_unit(conv_id=conv_id)
        assert answer is not None and answer.first.body == b"e5"


# Scoresheets.


def test_a_sheet_that_is_cut_anywhere_is_read_as_far_as_its_last_whole_line(desk: Desk) -> None:
    desk.play()
    path = sheet_path(desk.spool, BLACK)
    whole = path.read_bytes()

    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        sheet = Sheet(desk.spool, BLACK)
        assert sheet.score.moves == list(SHORT)[: len(sheet.score.moves)]
        sheet.done("0000000000000000")
        assert path.read_bytes() == whole[: whole[:size].rfind(b"\n") + 1] + b"done 0000000000000000\n"


@pytest.mark.parametrize(
    "line", ["", "heard 1", "heard 1 castle", "reply", "done", "done 1 2", "lost 1", "reply e4 e5"]
)
def test_what_is_no_line_of_a_sheet_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "spool.white.sheet").write_text(f"{line}\n")

    with pytest.raises(Failure, match="no line of a scoresheet"):
        Sheet(tmp_path / "spool", WHITE)


def tampered(desk: Desk, side: Side, old: str, new: str) -> list[str]:
    path = sheet_path(desk.spool, side)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return differences(SHORT, desk.scores())


@a_sample(1)
@pytest.mark.parametrize(
    ("side", "old", "new", "said"),
    [
        (WHITE, "e5\n", "e6\n", "white has recorded e6 at move 1, and e5 was played"),
        (BLACK, "reply Qh4#\n", "", "black has recorded 0-1 at move 2, and Qh4# was played"),
        (BLACK, "reply Qh4#\n", "reply Qh5#\n", "black has recorded Qh5#"),
        (BLACK, "0-1\ndone ", "0-1\nheard ", "is no line"),
    ],
)
def test_a_sheet_that_is_not_as_the_game_is_found_out(side: Side, old: str, new: str, said: str, desk: Desk) -> None:
    desk.play()
    if said == "is no line":
        with pytest.raises(Failure, match=said):
            tampered(desk, side, old, new)
        return

    assert said in "\n".join(tampered(desk, side, old, new))


def test_a_move_that_is_handed_out_again_after_its_commit_is_found_out(desk: Desk) -> None:
    desk.play()
    again = desk.scores()[BLACK].received[0]
    with sheet_path(desk.spool, BLACK).open("a") as file:
        file.write(f"heard {again} f3\n")

    found = "\n".join(differences(SHORT, desk.scores()))
    assert "black was handed out f3 again, after it had committed it" in found
    assert "does not know to be committed" in found
    scores = desk.scores()
    scores[BLACK].received[0] = "another"
    assert any("are not the units of work" in text for text in differences(SHORT, scores))


# Whole games, by processes.


def pgn(folder: Path, moves: Sequence[str] = SHORT) -> Path:
    path = folder / "game.pgn"
    path.write_text(f'[White "A"]\n[Black "B"]\n\n{numbered(moves)}\n')
    return path


@pytest.mark.whole
def test_a_game_with_kills_holds_and_says_so_in_json(tmp_path: Path) -> None:
    seen = oms_json("chess", "--pgn", str(pgn(tmp_path)), "--kills", "4", "--seed", "7", spool=tmp_path)

    assert (seen["holds"], seen["findings"], seen["kills"], seen["kept"]) == (True, [], 4, False)
    assert seen["moves"] == seen["recorded"]["white"] == seen["recorded"]["black"] == list(SHORT)
    assert sum(visit["outcome"] == "killed" for visit in seen["visits"]) == 4
    assert not Path(seen["spool"]).exists()
    assert [path.name for path in tmp_path.iterdir()] == ["game.pgn"]


@pytest.mark.whole
def test_a_person_sees_a_line_for_each_process_and_the_verdict_in_the_end(tmp_path: Path) -> None:
    spool = tmp_path / "game"

    text = oms("chess", "--pgn", str(pgn(tmp_path, ("e4", "1/2-1/2"))), "--kills", "0", "--spool", str(spool)).stdout

    lines = [line.split() for line in text.splitlines()]
    assert ["1.", "white", "00780305", "e4", "ACCEPTED"] in lines
    assert ["1.", "black", "00780305", "e4", "1/2-1/2", "ACCEPTED"] in lines
    assert ["end", "white", "PROCESSED", "1/2-1/2", "PROCESSED"] in lines
    assert "Verdict: it holds." in text
    assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 80
    assert "oms dump --spool" in text
    assert oms_json("verify", spool=spool)["intact"] is True
    assert "of another game" in oms("chess", "--spool", str(spool), code=2).stderr + _emptied(spool)


def _emptied(spool: Path) -> str:
    """Return what is said when the spool directory is empty again, and the scoresheets are there."""
    shutil.rmtree(spool)
    return oms("chess", "--spool", str(spool), code=2).stderr


def match(folder: Path, watch: Callable[[Visit], None], kills: int = 0) -> Played:
    game = Game(("e4", "*"), {})
    return Match(MatchSettings(spool=folder / "spool", game=game, kills=kills, seed=1), watch).run()


@pytest.mark.whole
def test_a_move_that_got_lost_ends_the_game_with_a_finding(tmp_path: Path) -> None:
    def steal(visit: Visit) -> None:
        if visit.side is WHITE and visit.outcome is Outcome.MOVED:
            with open_broker(tmp_path / "spool", BROKER_ID) as broker, broker.session("BLACK", token="THIEF") as thief:
                thief.register(SERVICE)
                unit = thief.receive_unit(SERVICE)
                assert unit is not None
                unit.commit()

    played = match(tmp_path, steal)

    assert (played.holds, played.is_over) == (False, False)
    assert played.findings == ["black at move 1 is 'no game', and 'moved' is due"]


@pytest.mark.whole
def test_a_game_that_does_not_hold_is_told_and_its_directory_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Forging(Match):
        def run(self) -> Played:
            return replace(super().run(), findings=["white has recorded Qe9"])

    monkeypatch.setattr("oms_journal.cli.demo.chess.command.Match", Forging)

    result = oms("chess", "--pgn", str(pgn(tmp_path, ("*",))), "--kills", "0", code=1)

    assert "Verdict: it does NOT hold; 1 difference." in result.stdout
    assert "- white has recorded Qe9" in result.stdout
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


@pytest.mark.whole
def test_ctrl_c_ends_the_players_and_removes_the_directory(tmp_path: Path) -> None:
    with subprocess.Popen(
        command_line("chess"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment() | {"TMPDIR": str(tmp_path)},
    ) as running:
        while not any(tmp_path.glob("*/spool/omsmsg-*.data")) and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)

    assert (running.returncode, errors) == (130, b"oms: interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_game_at_the_opera_holds_whoever_is_killed(seed: int, tmp_path: Path) -> None:
    seen = oms_json("chess", "--kills", "60", "--seed", str(seed), spool=tmp_path)

    assert (seen["holds"], seen["kills"]) == (True, 60)
    assert seen["recorded"] == {"white": OPERA_MOVES, "black": OPERA_MOVES}


# By hand.


def by_hand(spool: Path, *arguments: str, code: int = 0) -> str:
    result = oms("chess", *arguments, "--spool", str(spool), code=code)
    return result.stdout.splitlines()[-1].strip() if result.stdout else result.stderr.removeprefix("oms: ").strip()


@pytest.mark.whole
def test_two_people_play_by_hand(tmp_path: Path) -> None:
    spool = tmp_path / "game"

    assert "holds no game" in by_hand(spool, "black", code=2)
    assert not spool.exists()
    assert by_hand(spool, "white", "f3").startswith("It is black's turn: oms chess black MOVE")
    assert by_hand(spool, "white") == "Black has not answered yet; it is black's turn."
    assert by_hand(spool, "white", "g4", code=1) == "Black has not answered yet; it is black's turn."
    assert oms("chess", "white", "g4", "--spool", str(spool), code=1).stderr == "oms: g4 was not sent\n"
    assert by_hand(spool, "black").startswith("It is black's turn: oms chess black MOVE")
    assert by_hand(spool, "black", "e7", code=2) == "e7 is no move of black's pawns; nothing was sent"
    assert by_hand(spool, "black", "e5").startswith("It is white's turn")
    assert by_hand(spool, "white", "g4").startswith("It is black's turn")
    assert by_hand(spool, "black", "Qh4#!").startswith("It is white's turn")
    assert by_hand(spool, "white", "Ke2", code=2) == "Ke2 comes after Qh4#, which was mate; nothing was sent"
    assert by_hand(spool, "white", "0-1").startswith("The game is over; black has yet to hear of it")
    assert by_hand(spool, "black") == "The game is over: 0-1"
    assert by_hand(spool, "white", "e4", code=1) == "The game is over: 0-1"
    seen = oms_json("chess", "black", "--spool", str(spool), spool=tmp_path)
    assert (seen["outcome"], seen["moves"]) == ("over", list(SHORT))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["game", "game.black.sheet", "game.white.sheet"]


def of_another_broker(spool: Path) -> None:
    Broker.open(spool, broker_id="ETB001").close()


def of_plain_users(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        db.add("q", b"x")


def of_somebody(spool: Path) -> None:
    spool.mkdir()
    (spool / "diary.txt").write_text("mine")


def a_file(spool: Path) -> None:
    spool.write_text("mine")


@pytest.mark.parametrize("arguments", [("white", "e4"), ("white",), ("black",)], ids=" ".join)
@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (of_another_broker, 4, "belongs to broker ETB001, not to CHESS"),
        (of_plain_users, 4, "no broker may touch"),
        (of_somebody, 2, "holds other things, and no game"),
        (a_file, 2, "is not a directory"),
    ],
)
def test_a_directory_without_a_game_is_refused(
    make: Callable[[Path], None], code: int, said: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    make(spool)
    before = sorted(path.name for path in tmp_path.rglob("*") if not path.name.startswith("omsmsg"))

    result = oms("chess", *arguments, "--spool", str(spool), code=code)

    assert said in result.stderr
    assert (len(result.stderr.splitlines()), result.stdout) == (1, "")
    assert sorted(path.name for path in tmp_path.rglob("*") if not path.name.startswith("omsmsg")) == before


def test_a_directory_that_a_running_broker_has_is_refused_as_locked(desk: Desk) -> None:
    with open_broker(desk.spool, BROKER_ID, **ATTRIBUTES) as broker:
        desk.sit(broker, WHITE)
        result = oms("chess", "black", "--spool", str(desk.spool), code=3)

    assert "only one broker at a time has a store" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["green"], "must be one of white, black"),
        (["white", "e4"], "--spool DIR is missing"),
        (["white", "e9", "--spool", "s"], "e9 is no move"),
        (["white", "e4\x1b", "--spool", "s"], "is no move"),
        (["white", "e4", "--spool", "s", "--kills", "3"], "are for a whole game"),
        (["white", "e4", "--spool", "s", "--seed", "0"], "are for a whole game"),
        (["--kills", "-1"], "from 0 to 1,000"),
        (["--pgn", "missing.pgn"], "missing.pgn cannot be read: No such file"),
        (["--pgn", "."], "Is a directory"),
        (["--pgn", "noise.pgn"], "noise.pgn: line 1: the character"),
        (["--pgn", "long.pgn"], "no game of chess"),
        (["--spool", "full"], "not an empty directory"),
    ],
)
def test_wrong_usage_is_one_line_and_changes_nothing(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noise.pgn").write_bytes(bytes(range(256)))
    (tmp_path / "long.pgn").write_bytes(b"1. e4 e5 " * 200_000)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    before = sorted(tmp_path.rglob("*"))

    result = oms("chess", *arguments, code=2)

    assert said in result.stderr
    assert (len(result.stderr.splitlines()), result.stdout) == (1, "")
    assert sorted(tmp_path.rglob("*")) == before
