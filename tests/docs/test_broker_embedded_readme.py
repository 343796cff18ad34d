"""What the README shows of the embedded broker runs, and prints what it says."""

import contextlib
import io
from pathlib import Path

import pytest

from tests.support.project import REPOSITORY

SECTION = (
    (REPOSITORY / "README.md").read_text(encoding="utf-8").split("## The broker in your program\n")[1].split("\n## ")[0]
)
PARTS = [part.split("```")[0] for part in SECTION.split("```python\n")[1:]]


def printed(code: str) -> list[str]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    return output.getvalue().splitlines()


def test_the_snippets_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert [printed(code) for code in PARTS] == [
        [
            "b'e4' {} RECV_ONLY 0",
            "b'd4' {'variant': 'blitz'} RECV_FIRST 0",
            "b'have fun' {} RECV_LAST 0",
            "PROCESSED",
            "[b'e5']",
        ],
        ["[b'It rains.']"],
    ]
