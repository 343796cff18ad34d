"""What fuzzing has found stays found: every kept input is played again, and the targets can fail."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oms_journal import MessageDatabase
from oms_journal.broker.drivers.sqlite_contents import SqliteContents
from oms_journal.broker.records import Layout
from oms_journal.broker.server.http.metrics import Exposition
from oms_journal.broker.server.stomp.frames import FrameReader
from oms_journal.database import lookup
from oms_journal.recovery import findings
from tests.fuzz import corpora, directory_targets, file_targets, server_targets, text_targets
from tests.fuzz.__main__ import play
from tests.fuzz.corpora import CORPORA, CORPORA_BYTES_MAX, crashes_in, read_corpus
from tests.fuzz.every import TARGETS
from tests.fuzz.target import bounded_memory
from tests.support.journals import descriptions
from tests.support.journals.java_reader import needs_java
from tests.support.sweeps import Share, a_sample, for_each, in_two_sizes


@in_two_sizes
@for_each("name", TARGETS)
def test_every_kept_input_and_every_seed_keeps_what_its_target_promises(name: str, share: Share) -> None:
    target = TARGETS[name]
    inputs = [*read_corpus(name), *target.seeds()]

    assert inputs
    for data in share.every(3, (b"", *inputs)):  # `make fuzz` begins with nothing
        with bounded_memory():
            target.play(data)


def test_the_kept_inputs_are_small_and_each_file_of_them_has_its_target() -> None:
    files = sorted(CORPORA.iterdir())

    assert {file.stem for file in files} == set(TARGETS)
    assert sum(file.stat().st_size for file in files) <= CORPORA_BYTES_MAX


@for_each("name", TARGETS)
def test_what_a_crash_was_is_said_above_its_input(name: str) -> None:
    lines = crashes_in(name)

    for place, line in enumerate(lines):
        if line.startswith("#"):
            assert line[1:].strip() and lines[place + 1].startswith("b"), "a comment without an input below it"


def test_a_process_that_does_not_begin_leaves_the_kept_inputs_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "CORPORA", tmp_path)
    monkeypatch.setattr("sys.executable", shutil.which("false"))
    kept = tmp_path / "footer.txt"
    kept.write_text("b'longer'\nb'short'\n")

    played = play("footer", 1)

    assert played.is_broken
    assert kept.read_text() == "b'longer'\nb'short'\n"


# Targets can fail: each of these is a decoder that does less than it should.

Broken = Callable[..., Any]


def _raises(failure: Exception) -> Broken:
    def broken(*_: Any, **__: Any) -> Any:
        raise failure

    return broken


def _line_ends(page: Exposition) -> str:
    return "\n".join(page._lines).replace("\\n", "\n") + "\n"


# What is done to which name, in whose place; and the target that finds it.
SABOTAGE: dict[str, tuple[str, object, str, Broken]] = {
    "what is no header is one": ("file-header", file_targets, "decode_header", lambda _: directory_targets._HEADER),
    "another exception": ("properties", file_targets, "decode_properties", _raises(KeyError("x"))),
    "too much memory": ("hold-file", findings, "intended", lambda *_: bytearray(1 << 33)),
    "numbers are lost": ("removal-set", file_targets, "decode_set", lambda *_: np.array([7])),
    "two readers differ": ("built-file", descriptions, "dump", lambda *_: iter(())),
    "a round trip loses something": ("index-file", lookup, "encode_index_file", lambda *_: b""),
    "damage is not reported": ("patched-file", descriptions, "validate_directory", lambda *_: ()),
    "a start fails in its own way": ("patched-directory", MessageDatabase, "open", _raises(IndexError("x"))),
    "a record fails in its own way": ("broker-record", Layout, "decode", _raises(KeyError("x"))),
    "a row fails in its own way": ("sqlite-rows", SqliteContents, "read", _raises(AssertionError())),
    "a cut changes the frames": ("stomp-frames", FrameReader, "frames", lambda self: iter([bytes(self._data)])),
    "a request is a mistake of the server": ("http-connection", json, "loads", _raises(RuntimeError("x"))),
    "an answer loses something": (
        "control-block",
        server_targets,
        "encode_answer",
        lambda _: {"error_code": "00740074"},
    ),
    "a terminal is commanded": ("terminal-text", text_targets, "printable", lambda text: text),
    "a label becomes a line": ("metric-labels", Exposition, "text", _line_ends),
}


NEEDS_JAVA = ("two readers differ", "damage is not reported")


@a_sample(4)
@pytest.mark.parametrize("what", [pytest.param(one, marks=[needs_java] * (one in NEEDS_JAVA)) for one in SABOTAGE])
def test_a_decoder_that_does_less_than_it_should_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, place, attribute, broken = SABOTAGE[what]
    inputs = [*read_corpus(name), *TARGETS[name].seeds()]
    monkeypatch.setattr(place, attribute, broken)

    found = [data for data in inputs if _breaks(name, data)]

    assert found


def _breaks(name: str, data: bytes) -> bool:
    try:
        with bounded_memory():
            TARGETS[name].play(data)
    except Exception:
        return True
    return False
