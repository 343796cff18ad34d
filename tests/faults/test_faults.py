"""The file calls of the C library fail, one after another, under the real program (`tests/faults`).

What was once found broken is tried by name, a share of all faults by chance; `make faults` tries every one.

The sample has twenty faults, and of those at a server one of each way a call goes wrong.
"""

import errno
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.faults.shim import FULL, GONE, ONCE, SHORTENED, TORN, Fault, why_not
from tests.faults.sweep import SCENARIOS, Findings, Run, Sweep, swept
from tests.support.sweeps import sampled

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "it is")
SHARE = 60  # of some six thousand; twenty in the sample


@pytest.fixture(scope="module")
def sweep() -> Iterator[Sweep]:
    with Sweep() as made:
        yield made


@pytest.mark.whole
@pytest.mark.parametrize(("seed", "count"), [(1, SHARE // 3), pytest.param(2, SHARE, marks=pytest.mark.whole)])
def test_a_share_of_all_faults_breaks_no_promise(sweep: Sweep, seed: int, count: int) -> None:
    findings = swept(sweep, seed=seed, count=count, scenarios=[one for one in SCENARIOS if one.program != "server"])

    assert findings.violations == []
    assert findings.runs == count
    words = {word for counted in findings.outcomes.values() for word in counted}
    assert {"goes on", "ends", "says so, ends"} <= words, "faults were met, and some were survived"


FOUND = {
    "a close that fails": ("a day", "goes on", Fault(phase="close", call="close", kind="data", code=errno.EIO)),
    "a close after a good sync": (
        "a day",
        "goes on",
        Fault(phase="open", call="close", kind="directory", code=errno.EIO),
    ),
    "a lock that cannot be read at the end": (
        "a day",
        "goes on",
        Fault(phase="close", call="pread64", kind="lock", nth=2, mode=GONE, code=errno.EIO),
    ),
    "a file that cannot be asked for its size": (
        "takeover",
        "ends",
        Fault(phase="takeover", call="stat", kind="data", code=errno.EIO),
    ),
    "a lock that is read in two pieces": (
        "a day",
        "goes on",
        Fault(phase="commit", call="pread64", kind="lock", nth=3, mode=SHORTENED),
    ),
    "a lock that is written in two pieces": (
        "a day",
        "goes on",
        Fault(phase="open", call="pwrite64", kind="lock", mode=SHORTENED),
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_what_was_found_stays_put_right(sweep: Sweep, what: str) -> None:
    name, word, fault = FOUND[what]
    findings = Findings()
    [scenario] = [each for each in SCENARIOS if each.name == name]
    sweep.do(Run(scenario, replace(fault, nth=fault.nth or 1)), findings)

    assert findings.violations == []
    assert findings.never == 0
    assert list(findings.outcomes.values()) == [{word: 1}]


SERVED = {
    "a store that cannot be read": ("says so, ends", "start", "pread64", "data", GONE, errno.EIO),
    "a directory that cannot be synced": ("says so, ends", "start", "fsync", "directory", ONCE, errno.EIO),
    "a sync at the end that fails": ("goes on", "stop", "fsync", "data", ONCE, errno.EIO),
    "a commit that fails": ("goes on without", "commit", "pwritev2", "data", ONCE, errno.EIO),
    "a commit on a full disk": ("goes on without", "commit", "pwritev2", "data", FULL, errno.ENOSPC),
    "half a commit, then a full disk": ("goes on without", "commit", "pwritev2", "data", TORN, errno.ENOSPC),
    "a commit in two pieces": ("goes on", "commit", "pwritev2", "data", SHORTENED, 0),
    "a commit that is interrupted": ("goes on", "commit", "pwritev2", "data", ONCE, errno.EINTR),
    "an owner who cannot be seen": ("goes on without", "commit", "pread64", "lock", GONE, errno.EIO),
    "a delivery that fails": ("goes on without", "deliver", "pwritev2", "data", ONCE, errno.EIO),
    "a message that is read in two pieces": ("goes on", "deliver", "pread64", "data", SHORTENED, 0),
}


@pytest.mark.parametrize("what", sampled(SERVED, 1, kind=lambda what: SERVED[what][0]))
def test_a_server_keeps_what_it_promised_whatever_fails(sweep: Sweep, what: str) -> None:
    word, phase, call, kind, mode, code = SERVED[what]
    findings = Findings()
    [scenario] = [each for each in SCENARIOS if each.program == "server"]
    sweep.do(Run(scenario, Fault(phase=phase, call=call, kind=kind, nth=1, mode=mode, code=code)), findings)

    assert findings.violations == []
    assert findings.never == 0
    assert list(findings.outcomes.values()) == [{word: 1}]


@pytest.mark.slow
def test_no_fault_at_any_call_breaks_a_promise(sweep: Sweep) -> None:
    findings = swept(sweep, seed=1)

    assert findings.violations == []
