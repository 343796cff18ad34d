"""The decision table: every combination of what can be seen has exactly one row, as its docstring says."""

import itertools
import re
from collections.abc import Iterator

import oms_journal.recovery.decision
from oms_journal.recovery.decision import TABLE, Action, Body, Decision, Foot, Head, Observed, decide
from oms_journal.recovery.report import Verdict
from tests.support.sweeps import for_each

SQUARE = [
    Observed(head=head, body=body, foot=foot, is_followed=followed, ends_as_named=ends)
    for head, body, foot, (followed, ends) in itertools.product(
        Head, Body, Foot, ((False, True), (True, True), (True, False))
    )
]
ACTIONS = {action.name.lower(): action for action in Action}


def written_rows() -> list[tuple[str, str, str, str, str, Verdict, Action]]:
    """Return the rows of the docstring's table: row, header, body, footer, followed, verdict, action."""
    lines = (oms_journal.recovery.decision.__doc__ or "").splitlines()
    (start,) = [at for at, line in enumerate(lines) if line.split()[:3] == ["row", "header", "body"]]
    rows = []
    for line in itertools.takewhile(str.strip, lines[start + 1 :]):
        row, head, body, foot, followed, verdict, action = re.split(r"\s{2,}", line.strip())
        rows.append((row, head, body, foot, followed, Verdict(verdict), ACTIONS[action]))
    return rows


def fits(written: tuple[str, str, str, str, str, Verdict, Action], seen: Observed) -> bool:
    _, head, body, foot, followed, _, _ = written
    is_next = {
        "-": True,
        "no": not seen.is_followed,
        "yes": seen.is_followed,
        "otherwise": seen.is_followed and not seen.ends_as_named,
    }
    return (
        (head == "-" or seen.head.value in head.split(", "))
        and (body == "-" or seen.body.value in body.split(", "))
        and (foot == "-" or seen.foot.value in foot.split(", "))
        and is_next[followed]
    )


def decided() -> Iterator[tuple[Observed, Decision]]:
    for seen in SQUARE:
        yield seen, decide(seen)


@for_each("seen", SQUARE)
def test_every_combination_has_the_first_row_that_is_written_for_it(seen: Observed) -> None:
    row, *_, verdict, action = next(written for written in written_rows() if fits(written, seen))

    assert decide(seen) == Decision(row, verdict, action)


def test_every_row_that_is_written_is_reached_and_no_other() -> None:
    written = {(row, verdict, action) for row, *_, verdict, action in written_rows()}

    assert {(found.row, found.verdict, found.action) for _, found in decided()} == written
    assert len(TABLE) == len(written_rows())


def test_nothing_is_called_clean_unless_all_that_was_promised_is_there() -> None:
    bodies = {seen.body for seen, found in decided() if found.verdict is Verdict.CLEAN}
    heads = {seen.head for seen, found in decided() if found.row in ("sealed", "unsealed")}

    assert bodies == {Body.WHOLE, Body.ZERO}
    assert heads == {Head.GOOD}


def test_nothing_that_a_later_file_vouches_for_is_called_torn() -> None:
    torn = [seen for seen, found in decided() if found.verdict is Verdict.TORN and seen.body is not Body.LATE]

    assert not any(seen.is_followed for seen in torn)
    assert not any(seen.foot is Foot.GOOD and seen.body is Body.TORN for seen in torn)


def test_damage_is_never_removed_without_a_trace() -> None:
    damaged = {found.action for _, found in decided() if found.verdict is Verdict.DAMAGED}

    assert damaged == {Action.REBUILD, Action.ENTOMB}
