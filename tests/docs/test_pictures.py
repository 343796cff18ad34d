"""The pictures of the documents can be made again, from what is there today."""

from pathlib import Path

import pytest

from tests.docs.pictures import BYTES_MAX, draw_command, draw_console
from tests.support.servers.browser import needs_browser


@pytest.mark.whole
def test_the_picture_of_the_command_is_text_of_what_it_prints(tmp_path: Path) -> None:
    picture = tmp_path / "command.svg"

    draw_command(picture, tmp_path)

    text = picture.read_text(encoding="utf-8").replace("&#160;", " ")
    assert "oms explain" in text and "letters #1" in text and "/srv/shop/spool" in text
    assert "@font-face" not in text and str(tmp_path) not in text
    assert len(text) <= BYTES_MAX


@pytest.mark.whole
@needs_browser
def test_the_picture_of_the_console_is_small(tmp_path: Path) -> None:
    picture = tmp_path / "console.png"

    draw_console(picture, tmp_path)

    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size <= BYTES_MAX
