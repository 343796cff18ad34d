"""A stream that races a clean-up has every operation once, or says what it has missed."""

from pathlib import Path
from typing import Any

import pytest

from oms_journal.analysis.spark.stream import JournalStreamReader
from tests.analysis.spark.schedules import Broken, play
from tests.support.sweeps import Share, in_three_sizes

SEEDS_WITH_FAULT = 30  # within which a stream that keeps silent is found


@in_three_sizes
def test_a_stream_that_races_a_clean_up_has_all_or_says_what_it_has_missed(share: Share, tmp_path: Path) -> None:
    for seed in share.of(range(300), 6):
        (tmp_path / str(seed)).mkdir()
        play(seed, tmp_path / str(seed))


def test_a_stream_that_keeps_silent_of_what_has_gone_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> Any:
        return iter(())

    monkeypatch.setattr(JournalStreamReader, "_hole", nothing)
    monkeypatch.setattr(JournalStreamReader, "_check", nothing)
    with pytest.raises(Broken, match=r"nobody says so|tells of no gap"):
        for seed in range(SEEDS_WITH_FAULT):
            (tmp_path / str(seed)).mkdir()
            play(seed, tmp_path / str(seed))
