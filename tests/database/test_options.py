"""How a database is opened: sizes and durations as people write them, limits, and the environment."""

from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from oms_journal import Options
from oms_journal.database.options import ENVIRONMENT, NamedOptions, parse_duration, parse_size
from tests.support.sweeps import for_each


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("7", 7),
        ("7B", 7),
        ("7b", 7),
        ("1K", 1 << 10),
        ("25M", 25 << 20),
        ("25m", 25 << 20),
        (" 2 G ", 2 << 30),
        (7680, 7680),
    ],
)
def test_a_size_is_a_number_and_a_unit(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "M", "-1", "1.5M", "25MB", "1KiB", "1 0", "0x10", "٣", "1e3", "25M!", None, 1.5, [1]]
)
def test_what_is_no_size_is_refused_with_an_example(text: Any) -> None:
    with pytest.raises(ValueError, match="as in 25M"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("90s", 90),
        ("1.5m", 90),
        ("30M", 1800),
        ("12h", 43_200),
        (" 7 d ", 604_800),
        (5, 5),
        (0.5, 0.5),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1w", "1h30m", "1,5h", ".5s", "nan", "inf", "٣", None, [1]])
def test_what_is_no_duration_is_refused_with_an_example(text: Any) -> None:
    with pytest.raises(ValueError, match="as in 30m"):
        parse_duration(text)


def test_options_are_given_as_people_write_them(tmp_path: Path) -> None:
    options = Options.of(
        max_data_file_size="1M",
        max_message_size="64K",
        cleanup_interval="5m",
        compact_share=0.5,
        duplicate_count="10",
        duplicate_age="2h",
        policy="refuse",
        validation="footers",
        retention_directory=str(tmp_path),
        retention_age="7d",
        retention_bytes="2G",
        group_alignment=512,
    )

    assert options == Options(
        max_data_file_size=1 << 20,
        max_message_size=64 << 10,
        cleanup_interval=300,
        compact_share=0.5,
        duplicate_count=10,
        duplicate_age=7200,
        policy="refuse",
        validation="footers",
        retention_directory=tmp_path,
        retention_age=604_800,
        retention_bytes=2 << 30,
        group_alignment=512,
    )


def test_none_means_the_default() -> None:
    assert Options.of(max_data_file_size=None, policy=None, retention_age=None) == Options()


@for_each(
    ("name", "value"),
    [
        ("max_data_file_size", 4095),
        ("max_data_file_size", (16 << 30) + 1),
        ("max_data_file_size", "17G"),
        ("max_message_size", 0),
        ("max_message_size", (1 << 30) + 1),
        ("cleanup_interval", -1),
        ("cleanup_interval", float("nan")),
        ("compact_share", -0.1),
        ("compact_share", 1.1),
        ("compact_share", "much"),
        ("duplicate_count", -1),
        ("duplicate_count", "many"),
        ("duplicate_age", -1.0),
        ("policy", "Salvage"),
        ("policy", 3),
        ("validation", ""),
        ("retention_age", -1),
        ("retention_bytes", -1),
        ("group_alignment", 4),
        ("group_alignment", 12),
        ("group_alignment", 8192),
        ("archives_max", -1),
        ("archives_max", True),
        ("max_data_file_size", True),
        ("duplicate_count", 1.5),
        ("duplicate_count", "1.5"),
        ("archives_max", 2.0),
        ("group_alignment", 512.0),
        ("cleanup_interval", True),
        ("cleanup_interval", float("inf")),
        ("cleanup_interval", float("nan")),
        ("cleanup_interval", 10**400),
        ("retention_age", 2e9),
        ("retention_directory", ""),
    ],
)
def test_a_value_outside_its_limits_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        Options.of(**{name: value})


@pytest.mark.parametrize("wrong", ["no", "yes", 0, 1, [], None])
@pytest.mark.parametrize("name", ["hold_suspects", "unreadable_as_damaged", "is_shared"])
def test_what_is_yes_or_no_is_true_or_false_and_nothing_else(name: str, wrong: object) -> None:
    if wrong is None:
        assert Options.of(**{name: wrong}) == Options()
        return
    with pytest.raises(TypeError, match=f"{name} must be True or False"):
        Options.of(**{name: wrong})


@pytest.mark.parametrize("wrong", [b"retained", 5, ["retained"]])
def test_a_directory_that_is_no_path_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="retention_directory must be a path"):
        Options.of(retention_directory=wrong)


def test_an_unknown_option_is_told_with_the_one_that_was_meant_and_no_internal_one() -> None:
    with pytest.raises(TypeError, match="did you mean max_data_file_size") as refused:
        Options.of(max_data_file_sise="25M")
    assert not any(internal in str(refused.value) for internal in ("is_shared", "passing", "chance", "sleep"))


def test_every_named_option_is_one_and_says_so_to_an_editor() -> None:
    hints, known = get_type_hints(NamedOptions), {each.name for each in fields(Options)}
    assert set(hints) <= known
    assert known - set(hints) == {"is_shared", "passing", "chance", "sleep", "steady"}, "what is not for callers"
    assert all(type(None) in get_args(hint) for hint in hints.values()), "None is the default"


@pytest.mark.parametrize("size", [7680, 16 << 30])
def test_the_limits_themselves_are_allowed(size: int) -> None:
    assert Options.of(
        max_data_file_size=size, max_message_size=1, compact_share=1, duplicate_count=0, group_alignment=4096
    )


def test_the_environment_has_the_names_of_the_server(tmp_path: Path) -> None:
    environ = {
        "MAX_DATA_FILE_SIZE": "10M",
        "MAX_MESSAGE_SIZE": "1M",
        "MSG_CLEANUP_INTERVAL": "45",
        "RETENTION_DIRECTORY": str(tmp_path),
        "RETENTION_AGE": "30d",
        "RETENTION_BYTES": "5G",
        "PATH": "/bin",
    }
    options = Options.from_environment(environ)

    assert options.max_data_file_size == 10 << 20
    assert options.max_message_size == 1 << 20
    assert options.cleanup_interval == 45 * 60, "a bare number is minutes, as the server has it"
    assert (options.retention_directory, options.retention_age, options.retention_bytes) == (
        tmp_path,
        2_592_000,
        5 << 30,
    )
    assert Options.from_environment(environ, max_data_file_size="1M", max_message_size=None) == Options.of(
        max_data_file_size="1M",
        max_message_size="1M",
        cleanup_interval="45m",
        retention_directory=tmp_path,
        retention_age="30d",
        retention_bytes="5G",
    ), "what is named wins, None is not named"
    assert Options.from_environment({}) == Options.from_environment(dict.fromkeys(ENVIRONMENT, "")) == Options()
    assert Options.from_environment({"MSG_CLEANUP_INTERVAL": "90s"}).cleanup_interval == 90


@pytest.mark.parametrize("variable", [name for name in ENVIRONMENT if name != "RETENTION_DIRECTORY"])
def test_a_bad_value_in_the_environment_is_refused_by_the_variables_name(variable: str) -> None:
    with pytest.raises(ValueError, match=f"^{variable}: "):
        Options.from_environment({variable: "often"})
