"""`python -m tests.clients DIR`: the test suites of foreign STOMP clients in DIR against `oms serve`.

What fails is a test that is not on the list of what differs on purpose (`differences.py`), or is on it and passes.
`docs/reference/stomp-clients.md` says which suites there are, in which versions, and how they come to DIR.

Exit status: 0 all is as it should be, 1 a suite says otherwise, 2 something is missing.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.clients import network
from tests.clients.differences import DIFFERENCES
from tests.clients.servers import Authority, complaints, variables
from tests.clients.suite import BrokenOff, Outcome, Outcomes, Suite, run
from tests.clients.suites import SUITES, CannotPrepare
from tests.clients.verdict import problems

PAGE = "docs/reference/stomp-clients.md"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def version_of(suite: Suite, checkout: Path) -> str:
    """Return the version that a checkout says, "" when it says none."""
    try:
        found = re.search(suite.version_pattern, (checkout / suite.version_file).read_text(encoding="utf-8"))
    except OSError:
        return ""
    return found[1] if found else ""


def what_is_missing(directory: Path | None, suites: Sequence[Suite]) -> list[str]:
    """Return what has to be there before anything is run, a sentence for each."""
    if directory is None:
        return [f"Say where the suites are: make clients SUITES=DIR ({PAGE})."]
    found = []
    for suite in suites:
        checkout = directory / suite.name
        if not checkout.is_dir():
            found.append(f"{suite.name} is not in {directory}. Check out {suite.project} there ({PAGE}).")
        elif not version_of(suite, checkout):
            found.append(
                f"{checkout} is no checkout of {suite.project}: {suite.version_file} says no version ({PAGE})."
            )
        if said := suite.missing():
            found.append(f"{suite.name}: {said}")
    if not found and (said := network.missing()):
        found.append(said)
    return found


def _prepare(directory: Path, scratch: Path, suites: Sequence[Suite]) -> None:
    """Copy the checkouts and get what they need, while there still is a network."""
    for suite in suites:
        version = version_of(suite, directory / suite.name)
        if version != suite.version:
            _say(f"{suite.name}: the list is of version {suite.version}, and this is {version}")
        copy = scratch / suite.name
        shutil.copytree(directory / suite.name, copy, ignore=shutil.ignore_patterns(".git", "node_modules"))
        suite.prepare(copy)


def play(scratch: Path, suites: Sequence[Suite]) -> bool:
    """Run the suites whose copies are there; return whether all is as it should be."""
    authority = Authority()
    found: list[str] = []
    for suite in suites:
        runs: dict[str, Outcomes] = {}
        copy, log = scratch / suite.name, scratch / f"{suite.name}.log"
        authority.equip(copy / "tmp")
        for each in suite.runs:
            folder = scratch / f"{suite.name}-served-{each.name}"
            try:
                with authority.serve(folder, each) as serving:
                    runs[each.name] = run(each, copy, variables(serving, each), log)
            except BrokenOff as failure:
                found.append(f"{suite.name} {each.name}: {failure}")
            else:
                found += [f"{suite.name} {each.name}: the server says {text!r}" for text in complaints(serving)]
                _say(_told(suite, each.name, runs[each.name]))
        found += [f"{suite.name}: {text}" for text in problems(runs, DIFFERENCES[suite.name])]
    for text in found:
        _say(text)
    return not found


def _told(suite: Suite, run: str, outcomes: Outcomes) -> str:
    counts = Counter(outcomes.values())
    listed = [
        name for name, outcome in outcomes.items() if outcome is Outcome.FAILED and name in DIFFERENCES[suite.name]
    ]
    skipped = [name for name, outcome in outcomes.items() if outcome is Outcome.SKIPPED]
    figures = f"{counts[Outcome.PASSED]} passed, {counts[Outcome.FAILED] - len(listed)} failed, {len(listed)} as listed"
    names = f" ({', '.join(skipped)})" if skipped else ""
    return f"{suite.name} {suite.version}{f' {run}' if run else ''}: {figures}, {len(skipped)} skipped{names}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__, allow_abbrev=False)
    parser.add_argument("directory", metavar="DIR", type=Path, nargs="?", help="where the checkouts of the suites are")
    parser.add_argument("--only", metavar="SUITE", choices=[suite.name for suite in SUITES], help="only this suite")
    parser.add_argument(
        "--prepared", type=Path, help=argparse.SUPPRESS
    )  # in a network of its own, for the process itself
    named = parser.parse_args(arguments)
    chosen = [suite for suite in SUITES if named.only in (None, suite.name)]
    suites = [suite for suite in chosen if not suite.left_out()]
    if named.prepared is not None:
        return 0 if play(named.prepared, suites) else 1
    for suite in chosen:
        if why := suite.left_out():
            _say(f"{suite.name} is left out: {why}")
    if missing := what_is_missing(named.directory, suites):
        for text in missing:
            _say(text)
        return 2
    scratch = Path(tempfile.mkdtemp(prefix="oms-clients-"))
    try:
        _prepare(named.directory, scratch, suites)
    except CannotPrepare as failure:
        shutil.rmtree(scratch)
        _say(str(failure))
        return 2
    again = [sys.executable, "-m", "tests.clients", "--prepared", str(scratch)]
    status = subprocess.run(network.command([*again, *(["--only", named.only] if named.only else [])]), check=False)
    if status.returncode:
        _say(f"What the suites said is in {scratch}.")
        return 1
    shutil.rmtree(scratch)
    _say("All suites passed but for what differs on purpose.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
