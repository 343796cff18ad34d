"""Outcomes of foreign tests held against the list of what differs on purpose."""

from collections.abc import Mapping

from tests.clients.differences import Difference
from tests.clients.suite import Outcome, Outcomes


def problems(runs: Mapping[str, Outcomes], listed: Mapping[str, Difference]) -> list[str]:
    """Return what is wrong with the outcomes of a suite's runs, a sentence for each test.

                 on the list                       on it as unsteady    not on it
    passed       wrong: take it off the list       right                right
    failed       right                             right                wrong: mend the server, or list it
    skipped      wrong: take it off the list       right                right, and told
    in no run    wrong: it has another name now    the same             -
    """
    found = []
    for run, outcomes in runs.items():
        for name, outcome in outcomes.items():
            told = f"{run}: {name}" if run else name
            difference = listed.get(name)
            if difference is None and outcome is Outcome.FAILED:
                found.append(f"{told} failed. Mend the server, or list the test with the reason why it differs.")
            if difference is not None and not difference.is_unsteady and outcome is not Outcome.FAILED:
                found.append(f"{told} {outcome.value}, and is listed as what differs on purpose. Take it off the list.")
    known = {name for outcomes in runs.values() for name in outcomes}
    return found + [f"{name} is listed, and the suite has no such test." for name in listed if name not in known]
