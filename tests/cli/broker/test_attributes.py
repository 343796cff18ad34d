"""`oms attributes`: a right file, a wrong one, and none at all."""

import json
from pathlib import Path

import pytest

from tests.support.cli_runner import oms

TEXT = """* the broker of the tests
DEFAULTS=BROKER
  BROKER-ID=ETB001  STORE=BROKER  PSTORE=WARM
DEFAULTS=SERVICE
  CLASS=GAMES SERVER=CHESS SERVICE=BY-MAIL
  UWTIME=30D
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ETB_ATTR", raising=False)
    (tmp_path / "etbfile").write_text(TEXT)
    return tmp_path / "etbfile"


def test_a_right_file_shows_what_counts_and_where_it_is_said(file: Path) -> None:
    lines = [line.split() for line in oms("attributes", str(file)).stdout.splitlines()]

    assert ["BROKER"] in lines and ["SERVICE", "GAMES/CHESS/BY-MAIL"] in lines
    assert ["BROKER-ID", "ETB001", "line", "3"] in lines
    assert ["UWTIME", "30D", "line", "6"] in lines
    assert ["STORE", "BROKER", "line", "3"] in lines[lines.index(["SERVICE", "GAMES/CHESS/BY-MAIL"]) :]
    assert ["MAX-UOWS", "0", "default"] in lines
    assert lines[-1][-3:] == ["nothing", "is", "wrong."]


def test_a_program_gets_the_same_as_json(file: Path) -> None:
    document = json.loads(oms("attributes", str(file), "--json").stdout)
    values = {(one["section"], one["definition"], one["keyword"]): one for one in document["attributes"]}

    assert document["file"] == str(file)
    assert values["SERVICE", "GAMES/CHESS/BY-MAIL", "UWTIME"]["value"] == "30D"
    assert values["BROKER", "", "PSTORE"]["line"] == 3


def test_a_wrong_file_names_every_line_and_attribute_and_exits_2(file: Path) -> None:
    file.write_text(TEXT.replace("WARM", "TEPID").replace("30D", "SOON"))
    result = oms("attributes", str(file), code=2)

    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"oms: {file}, line 3: PSTORE: TEPID is none of NO, HOT, COLD, WARM",
        f"oms: {file}, line 6: UWTIME: 'SOON' is not a duration; write a number and S, M, H or D, as in 30S, or UNLIM",
        f"oms: {file}: 2 faults, nothing can be started",
    ]


def test_one_fault_is_one_line(file: Path) -> None:
    file.write_text(TEXT.replace("WARM", "TEPID"))

    (line,) = oms("attributes", str(file), code=2).stderr.splitlines()

    assert line == f"oms: {file}, line 3: PSTORE: TEPID is none of NO, HOT, COLD, WARM"


def test_a_program_gets_the_faults_as_json(file: Path) -> None:
    file.write_text(TEXT.replace("WARM", "TEPID").replace("30D", "SOON"))
    (line,) = oms("attributes", str(file), "--json", code=2).stderr.splitlines()
    error = json.loads(line)

    assert [(fault["line"], fault["keyword"], fault["code"]) for fault in error["faults"]] == [
        (3, "PSTORE", "00210028"),
        (6, "UWTIME", "00210028"),
    ]


def test_a_missing_file_is_wrong_usage(tmp_path: Path) -> None:
    assert "No such file" in oms("attributes", str(tmp_path / "none"), code=2).stderr


def test_without_a_file_the_built_in_defaults_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ETB_ATTR", raising=False)
    lines = [line.split() for line in oms("attributes").stdout.splitlines()]

    assert ["DEFAULT-VALUES", "OMS", "built-in"] in lines
    assert ["PSTORE", "WARM", "default"] in lines
    assert ["SERVICE", "*/*/*"] in lines


def test_the_environment_names_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETB_ATTR", str(file))

    assert "GAMES/CHESS/BY-MAIL" in oms("attributes").stdout
