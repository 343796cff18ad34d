"""The page on options has every option with its default and its limits, and every variable of the environment."""

import re
from dataclasses import fields
from typing import get_args

import pytest

from oms_journal import Options, QueueOptions
from oms_journal.database.options import ENVIRONMENT, parse_duration, parse_size
from oms_journal.recovery.startup import Policy, Validation
from tests.support.project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "options.md").read_text(encoding="utf-8")
ROWS = {
    name: (default, limits)
    for name, default, limits in re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \| ([^|]*)\| [^|]+ \|$", PAGE, re.MULTILINE)
}
SECONDS = ("cleanup_interval", "duplicate_age", "renew_interval", "retention_age", "slow_sync")
BESIDE = {"max_attempts": {"dead_letter": "dead"}}  # what an option asks for
WORDS = {"10⁹": 10**9, "2⁶²": 1 << 62}


def test_every_option_has_a_row() -> None:
    assert set(ROWS) == {field.name for field in fields(Options)}


def test_every_option_of_a_queue_is_told() -> None:
    assert [field.name for field in fields(QueueOptions) if f"`{field.name}`" not in PAGE] == []


def test_options_show_what_the_page_names_and_nothing_else() -> None:
    calls = set(re.findall(r"`Options\.(\w+)\(", PAGE))

    assert {name for name in dir(Options()) if not name.startswith("_")} == {*ROWS, *calls}
    assert {name for name in dir(QueueOptions()) if not name.startswith("_")} == {
        field.name for field in fields(QueueOptions)
    }


@pytest.mark.parametrize("name", sorted(ROWS))
def test_its_default_is_that_of_the_code(name: str) -> None:
    said = ROWS[name][0]
    value = getattr(Options(), name)
    if callable(value):
        assert "the system's" in said
    elif name in SECONDS and value is not None:
        assert parse_duration(said) == value
    elif isinstance(value, str):
        assert said == f'`"{value}"`'
    elif value is None or isinstance(value, bool):
        assert said == f"`{value}`"
    else:
        assert float(said) == value if "." in said else parse_size(said) == value


@pytest.mark.parametrize("name", [name for name in sorted(ROWS) if " to " in ROWS[name][1]])
def test_its_limits_are_those_of_the_code(name: str) -> None:
    low, high = re.sub(r"a power of two, | seconds", "", ROWS[name][1]).split(" to ")
    for text, beyond in ((low, -1), (high, 1)):
        number, beside = _number(text.strip()), BESIDE.get(name, {})
        Options.of(**{name: number}, **beside)
        with pytest.raises(ValueError, match=name):
            Options.of(
                **beside, **{name: number * 2 + 1 if beyond > 0 else (number - 1 if number >= 1 else number - 0.001)}
            )


def _number(text: str) -> float:
    if text in WORDS:
        return WORDS[text]
    return float(text) if "." in text else parse_size(text)


@pytest.mark.parametrize(("name", "choices"), [("policy", Policy), ("validation", Validation)])
def test_its_choices_are_those_of_the_code(name: str, choices: object) -> None:
    assert re.findall(r'"(\w+)"', ROWS[name][1]) == list(get_args(choices))


def test_every_variable_of_the_environment_is_told() -> None:
    assert dict(re.findall(r"^\| `([A-Z_]+)` \| `(\w+)`", PAGE, re.MULTILINE)) == ENVIRONMENT
