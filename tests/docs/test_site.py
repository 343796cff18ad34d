"""The site of the documents is built without a warning, has every page, and asks nobody else for anything."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.docs.site import API, DOCS, build
from tests.support.servers.browser import Browser, browser, needs_browser

NARROW = 400  # CSS pixels, of a telephone


def named(entry: Any) -> Iterator[str]:
    """Yield the pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from named(part)


def test_the_navigation_has_every_page_once() -> None:
    nav = tomllib.loads((DOCS / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]

    assert sorted(named(nav)) == sorted([API, *(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


@pytest.mark.whole
def test_the_site_is_built_and_has_the_public_names(site: Path) -> None:
    assert "MessageDatabase" in (site / "reference" / "api.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as started:
        yield started


def _look(tab: Browser, page: Path, width: int, dark: bool) -> None:
    """Assert that a page fits a window of a width, shows the colours that are asked for, and asks nobody."""
    tab.open(page, width=width, dark=dark)
    away = [address for address in tab.requests if urlsplit(address).scheme not in ("file", "data")]
    assert away == [], page
    tab.wait(f"document.body.getAttribute('data-md-color-scheme') === '{'slate' if dark else 'default'}'")
    assert tab.run("document.documentElement.scrollWidth <= window.innerWidth"), f"{page}: wider than {width}"


def _pages(site: Path) -> list[Path]:
    pages = sorted(page for page in site.rglob("*.html") if page.name != "404.html")  # for a host: it has no files here
    assert pages
    return pages


@pytest.mark.whole
@needs_browser
def test_a_page_fits_a_small_window_and_asks_nobody_for_anything(tab: Browser, site: Path) -> None:
    """Every fourth one, light and dark in turn: a page costs a second of the processor or two."""
    for turn, page in enumerate(_pages(site)[::4]):
        _look(tab, page, NARROW, dark=turn % 2 == 1)


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, 1280])
def test_every_page_fits_a_window_in_both_colours(tab: Browser, site: Path, width: int, dark: bool) -> None:
    for page in _pages(site):
        _look(tab, page, width, dark)
