"""What must hold after every run, whatever failed in it.

Nobody was told a traceback; an exit code and a line say what came of it; what was acknowledged is there, what was
not is there whole or not at all, nothing is invented; and the second start finds what the first one did, and no fault.
"""

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oms_journal import MessageDatabase
from oms_journal.broker.codes import Code
from tests.faults.nursery import Job
from tests.faults.places import Place
from tests.faults.programs import OPTIONS
from tests.faults.visits import RECEIVED, SENT, WAITING, Visit
from tests.support.crashes.crash_model import Account, State, state_of
from tests.support.crashes.crash_writer import enter

THREADS = 2
_LOSS = re.compile("LOST")
_EXITS = {0: "goes on", 1: "says no", 3: "says so, ends", 4: "says so, ends"}


class Violated(AssertionError):
    """A promise was broken."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    job: Job
    code: int | None
    visit: Visit | None = None  # of a client, where a server was run
    handed: list[str] | None = None  # by a later server, all that there was
    later: "Ended | None" = None

    def text(self, name: str) -> str:
        return self.job.path(name).read_text("utf-8", "replace")


def must(holds: object, what: str) -> None:
    if not holds:
        raise Violated(what)


def outcome(ended: Ended, place: Place | None) -> str:
    """Return what came of a run, in a word for the table. Violated."""
    errors = _errors(ended)
    if ended.job.program == "server":
        return _of_server(ended)
    if ended.job.program == "command":
        assert place is not None
        return _of_command(ended, place)
    must(ended.code == 0, f"exit {ended.code}: {errors}")
    return _of_account(ended)


def _errors(ended: Ended) -> str:
    must(ended.code is not None, f"it hangs: {ended.text('err')}")
    errors = ended.text("err")
    must("Traceback" not in errors and "Exception ignored" not in errors, f"a traceback: {errors}")
    must("Warning" not in errors, f"a warning: {errors}")
    return errors


def found_after(directory: Path) -> tuple[State, bool]:
    """Return what a start finds and whether it reports a loss; the second start finds the same, and no fault."""
    with MessageDatabase.open(directory, **OPTIONS) as database:
        first, lost = state_of(database), bool(database.recovery.lost)
    with MessageDatabase.open(directory, **OPTIONS) as database:
        must(database.recovery.intact, f"the second start finds fault: {database.recovery.as_dict()}")
        must(state_of(database) == first, "the second start finds something else")
        number = database.add("later", b"goes on")
        must(number > max(first.messages, default=0), "a number comes again")
        must(database.deliver(number), "what was added is there")
    return first, lost


def _of_account(ended: Ended) -> str:
    """Compare the account of a program with what is there."""
    accounts: dict[int, Account] = {}
    words = set()
    for line in map(json.loads, ended.text("out").splitlines()):
        words.add(_entered(accounts, line))
    state, lost = found_after(Path(ended.job.directory))
    must(not lost, "a start reports a loss")
    for thread in range(THREADS):
        account = accounts.get(thread, Account())
        part = _part(state, thread)
        must(account.allows(part), f"thread {thread}: {_difference(account, part)}")
    for word in ("ends", "is refused", "goes on without"):
        if word in words:
            return word
    return "goes on"


def _entered(accounts: dict[int, Account], line: dict[str, Any]) -> str:
    match line["what"]:
        case "begin" | "done":
            enter(accounts, line)
        case "withdrawn":
            accounts[line["thread"]].in_flight = None  # DiskFull, or refused behind a failure: nothing was written
            return "is refused"
        case "failed":
            return "ends"
        case "read":
            _compare_read(accounts, line["found"])
        case "refused":
            must(line["text"], "an error without a text")
            return "goes on without" if line["step"] != "open" else "ends"
        case _:
            pass
    return ""


def _compare_read(accounts: dict[int, Account], found: dict[str, str]) -> None:
    known = accounts.get(0, Account()).state.messages
    for number, text in found.items():
        must(int(number) in known, f"message {number} is read, and not there")
        must(known[int(number)].payload == base64.b64decode(text), f"message {number} is read as another")


def _part(state: State, thread: int) -> State:
    messages = {number: one for number, one in state.messages.items() if one.queue == f"thread-{thread}"}
    return State(messages, {key: value for key, value in state.keys.items() if key.startswith(f"key-{thread}/")})


def _difference(account: Account, found: State) -> str:
    known = account.state
    missing = sorted(known.messages.keys() - found.messages.keys())
    extra = sorted(found.messages.keys() - known.messages.keys())
    keys = [key for key in known.keys | found.keys if known.keys.get(key) != found.keys.get(key)]
    return f"missing {missing}, extra {extra}, other keys {keys}; in flight: {account.in_flight}"


def _of_command(ended: Ended, place: Place) -> str:
    """Compare what a command said with what is there."""
    name, errors, code = ended.job.arguments[0], ended.text("err"), ended.code
    _check_said(code, errors)
    state, lost = found_after(Path(ended.job.directory))
    must(lost <= place.is_damaged, "a start reports a loss")
    before = place.state
    if name == "send":
        _compare_sent(ended, before, state)
    elif name == "receive":
        _compare_received(ended, before, state)
    else:
        must(state == before, f"{name} has changed what is there: {_difference(Account(before), state)}")
    assert code is not None
    return _EXITS[code]


def _check_said(code: int | None, errors: str) -> None:
    """An exit code that stands for a failure goes with a line that says which."""
    must(code in _EXITS, f"exit {code}: {errors}")
    if code in (3, 4):
        last = errors.splitlines()[-1:]
        must(last and last[0].startswith(("oms: ", '{"error": ')), f"exit {code} with: {errors!r}")


def _of_server(ended: Ended) -> str:
    """Compare what a client was promised with what a later server hands out."""
    visit, later = ended.visit, ended.later
    assert visit is not None and later is not None
    _check_said(ended.code, ended.text("err"))
    must(not visit.silent, f"no answer to {visit.silent}: {ended.text('err')}")
    must(not _LOSS.search(_errors(later)), f"a start reports a loss: {later.text('err')}")
    must(later.code == 0 and later.handed is not None, f"a later server: exit {later.code}: {later.text('err')}")
    assert later.handed is not None
    _compare_handed(visit, later.handed)
    _, lost = found_after(Path(ended.job.directory))
    must(not lost, "a start reports a loss")
    if ended.code in (3, 4):
        return _EXITS[ended.code]
    is_all = len(visit.receipted) == len(SENT) and len(visit.acknowledged) == RECEIVED
    return "goes on" if is_all else "goes on without"


def _compare_handed(visit: Visit, handed: list[str]) -> None:
    there = set(handed)
    must(len(there) == len(handed), f"handed out twice: {handed}")
    must(handed == [body for body in (*WAITING, *SENT) if body in there], f"in another order, or invented: {handed}")
    lost = {*WAITING, *visit.receipted} - there - set(visit.asked)
    must(not lost, f"promised and lost: {lost}; {visit}")
    must(not there & set(visit.acknowledged), f"acknowledged, and there: {there & set(visit.acknowledged)}")
    withdrawn = {body for body, text in visit.refused.items() if text.startswith(Code.NO_NEW_UOWS.value)}
    must(not there & withdrawn, f"refused, and there: {there & withdrawn}")
    must(set(visit.got) <= {*WAITING, *SENT}, f"invented: {visit.got}")


def _compare_sent(ended: Ended, before: State, after: State) -> None:
    new = after.messages.keys() - before.messages.keys()
    must(before.messages.items() <= after.messages.items() and before.keys == after.keys, "send has removed something")
    payloads = [after.messages[number].payload for number in new]
    must(payloads in ([], [b"hello"]), f"send has added {payloads}")
    printed = {int(number) for number in re.findall(r"\d+", ended.text("out"))}
    must(printed <= new and (printed or ended.code), f"printed {printed}")


def _compare_received(ended: Ended, before: State, after: State) -> None:
    """What was delivered was printed; what was printed may come again where the command says that it failed."""
    gone = before.messages.keys() - after.messages.keys()
    must(after.messages.items() <= before.messages.items() and before.keys == after.keys, "receive has added something")
    printed = [json.loads(line)["number"] for line in ended.text("out").splitlines()]
    must(gone <= set(printed), f"delivered and not printed: {sorted(gone - set(printed))}")
    must(ended.code == 4 or gone == set(printed), "printed, not delivered, and no word of it")
