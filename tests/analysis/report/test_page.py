"""The report's page in a real browser, and what its text says, on invented figures."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import data, escaped, name, tag
from oms_journal.analysis.report.page import page
from tests.support.journals import report_tables
from tests.support.journals.report_tables import DATABASE, EVIL, FIRST, LAST, QUEUES, Told, World
from tests.support.servers.browser import Browser, browser, needs_browser
from tests.support.sweeps import Test

WIDTHS = (1280, 400)
PAGE_BYTES_MAX = 2 << 20
CONTRAST_MIN = 4.5  # of text, as the accessibility guidelines ask for
FONT_PIXELS_MIN = 10.5


def in_browser(test: Test) -> Test:
    """Have a test in the whole, since a browser takes many seconds of a processor, and where there is one."""
    marked: Test = pytest.mark.whole(needs_browser(test))
    return marked


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a busy journal with names that nobody should give."""
    return _page(tmp_path_factory.mktemp("busy"), report_tables.invented())


def _page(folder: Path, rows: report_tables.Rows, world: World | None = None, **scope: Any) -> Path:
    path = folder / "report.html"
    told = _told(folder, rows, world, **scope)
    path.write_text(page(told.facts, told.sections), encoding="utf-8")
    return path


def _told(folder: Path, rows: report_tables.Rows, world: World | None = None, **scope: Any) -> Told:
    return report_tables.told(report_tables.write(folder / "tables", rows), world, **scope)


@in_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_loads_alone_fits_its_window_and_complains_of_nothing(
    tab: Browser, busy: Path, width: int, dark: bool
) -> None:
    tab.open(busy, width=width, dark=dark)

    assert tab.complaints == []
    assert tab.requests == [busy.as_uri()]
    assert tab.run("innerWidth") == width
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run("[...document.querySelectorAll('section')].every(s => s.scrollWidth <= s.clientWidth)")


@in_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_text_is_large_enough_and_stands_out_from_its_ground(
    tab: Browser, busy: Path, width: int, dark: bool
) -> None:
    tab.open(busy, width=width, dark=dark)

    texts = tab.run(_TEXTS)

    assert len(texts) > 300
    assert {text["text"]: text for text in texts if text["contrast"] < CONTRAST_MIN} == {}
    assert {text["text"]: text for text in texts if text["pixels"] < FONT_PIXELS_MIN} == {}


_TEXTS = """(() => {
    const paint = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgb = (colour) => {
        paint.clearRect(0, 0, 1, 1); paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
        return [...paint.getImageData(0, 0, 1, 1).data];
    };
    const light = (c) => c.slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (e) => { for (; e; e = e.parentElement) {
        const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255]; };
    return [...document.querySelectorAll('body *')]
        .filter(e => !e.closest('script') && e.getClientRects().length
            && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
        .map(e => {
            const style = getComputedStyle(e), pair = [light(rgb(style.color)), light(ground(e))].sort((a, b) => b - a);
            return {text: e.textContent.slice(0, 60), contrast: (pair[0] + 0.05) / (pair[1] + 0.05),
                pixels: parseFloat(style.fontSize)};
        });
})()"""


@in_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_every_plot_is_drawn_and_its_axes_are_labelled(tab: Browser, busy: Path, width: int) -> None:
    tab.open(busy, width=width)

    plots = tab.run("""[...document.querySelectorAll('figure.chart')].map(figure => ({
        title: figure.querySelector('figcaption').firstChild.data.trim(),
        width: figure.querySelector('.plot svg').getBoundingClientRect().width,
        height: figure.querySelector('.plot svg').getBoundingClientRect().height,
        drawn: [...figure.querySelectorAll('.plot .area, .plot .line')]
            .filter(p => p.getBoundingClientRect().width > 20).length,
        labels: [...figure.querySelectorAll('.ups span, .alongs span')].filter(l => l.getClientRects().length).length,
    }))""")
    spreads = tab.run("[...document.querySelectorAll('.spread path.area')].map(p => p.getBoundingClientRect().height)")

    assert [plot["title"] for plot in plots] == [
        *("Undelivered messages", "In and out", "Operations", "Payload added"),
        *("p99 over time", "p50 over time", "p90 over time", "Data files"),
        *("Operations a commit", "Commits a write", "Commits and writes", "Pauses"),
    ]
    for plot in plots:
        assert plot["drawn"] >= 1, plot
        assert plot["labels"] >= 5, plot
        assert plot["width"] > (width - 100) / 2.7, plot
        assert plot["height"] > 100, plot
    assert len(spreads) == len(QUEUES) - 1
    assert min(spreads) > 10


@in_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_labels_beside_a_plot_do_not_run_into_each_other(tab: Browser, busy: Path, width: int) -> None:
    tab.open(busy, width=width)

    overlapping = tab.run("""[...document.querySelectorAll('.alongs, .ups, .scale')].flatMap(axis => {
        const boxes = [...axis.children].filter(l => l.getClientRects().length)
            .map(l => [l, l.getBoundingClientRect()]);
        return boxes.flatMap(([a, one], i) => boxes.slice(i + 1)
            .filter(([, two]) => one.left < two.right && two.left < one.right && one.top < two.bottom
                && two.top < one.bottom)
            .map(([b]) => a.textContent + ' | ' + b.textContent));
    })""")

    assert overlapping == []


@in_browser
def test_a_click_on_a_heading_sorts_and_another_one_turns_the_order_round(tab: Browser, busy: Path) -> None:
    tab.open(busy)
    tab.run("window.heading = document.querySelectorAll('#stuck th button')[1]; heading.scrollIntoView()")
    place = tab.run("(() => { const b = heading.getBoundingClientRect(); return [b.x + 5, b.y + 5]; })()")

    orders = []
    for _ in range(2):
        tab.point(*place, click=True)
        orders.append((tab.run("heading.parentElement.ariaSort"), _column(tab, "#stuck", 1)))

    (first, falling), (second, rising) = orders
    assert (first, second) == ("descending", "ascending")
    assert falling == sorted(falling, key=int, reverse=True)
    assert rising == sorted(rising, key=int)
    assert len(set(falling)) > 5


@in_browser
def test_headings_are_reached_and_used_by_keyboard(tab: Browser, busy: Path) -> None:
    tab.open(busy)
    tab.run("document.querySelector('#stuck .scroll').focus()")

    tab.press("Tab", 9)
    tab.press("Enter", 13)

    assert tab.run("document.activeElement.textContent") == "Queue"
    assert tab.run("document.activeElement.parentElement.ariaSort") == "ascending"
    order = tab.run(
        "(() => { const c = new Intl.Collator('en', {numeric: true}), t = [...document.querySelectorAll("
        "'#stuck tbody tr')].map(r => r.cells[0].dataset.key);"
        " return t.every((v, i) => !i || c.compare(t[i - 1], v) <= 0); })()"
    )
    assert order is True


@in_browser
def test_what_is_unknown_stands_last_in_either_order(tab: Browser, busy: Path) -> None:
    tab.open(busy)
    tab.run("window.heading = document.querySelectorAll('#stuck th button')[2]")

    for _ in range(2):
        tab.run("heading.click()")
        keys = _column(tab, "#stuck", 2)
        assert "" in keys
        assert "" not in keys[: len(keys) - keys.count("")]


def _column(tab: Browser, section: str, place: int) -> list[str]:
    """Return what the rows are sorted by, as the page shows them."""
    script = f"[...document.querySelectorAll('{section} tbody tr')].map(row => row.cells[{place}].dataset.key)"
    found: list[str] = tab.run(script)
    return found


@in_browser
def test_a_long_table_is_folded_until_a_button_is_pressed(tab: Browser, busy: Path) -> None:
    tab.open(busy)
    shown = "[...document.querySelectorAll('#disk tbody tr')].filter(row => row.getClientRects().length).length"

    before = tab.run(shown)
    tab.run("document.querySelector('#disk .unfold').click()")

    assert (before, tab.run(shown)) == (12, 100)
    assert "28 more" in tab.run("document.querySelector('#disk .more').textContent")


@in_browser
def test_names_that_are_markup_are_text_and_nothing_of_them_runs(tab: Browser, busy: Path) -> None:
    tab.open(busy)

    shown = tab.run("[...document.querySelectorAll('#stuck td bdi')].map(e => e.title || e.textContent)")

    assert escaped(EVIL) in {escaped(text) for text in shown}
    assert "\\n</script>\\u202egnp.exe" in " ".join(shown)
    assert tab.run("document.querySelectorAll('img, iframe, object, link, form, main b').length") == 0
    assert tab.run("document.querySelectorAll('script:not([type])').length") == 1
    assert tab.requests == [busy.as_uri()]
    assert tab.complaints == []


@in_browser
def test_the_pointer_shows_names_as_text_too(tab: Browser, busy: Path) -> None:
    tab.open(busy, width=400)
    tab.run("window.plot = document.querySelectorAll('#traffic .plot')[1]; plot.scrollIntoView({block: 'center'})")
    x, y = tab.run("(() => { const b = plot.getBoundingClientRect(); return [b.x + b.width / 2, b.y + 40]; })()")

    tab.point(x, y)

    text = tab.run("document.getElementById('tip').textContent")
    assert re.match(r"2026-11-\d\d \d\d:\d\d", text)
    assert "<script>" in text
    assert "orders" in text
    box = tab.run(
        "(() => { const b = document.getElementById('tip').getBoundingClientRect(); return [b.left, b.right]; })()"
    )
    assert box[0] >= 0
    assert box[1] <= 400
    assert tab.run("document.documentElement.scrollWidth") == 400


@in_browser
def test_a_plot_is_read_by_arrow_keys(tab: Browser, busy: Path) -> None:
    tab.open(busy)
    tab.run("document.querySelector('#stuck .plot').focus()")

    texts = []
    for key, code in (("ArrowRight", 39), ("ArrowRight", 39), ("ArrowLeft", 37), ("End", 35), ("Escape", 27)):
        tab.press(key, code)
        texts.append(tab.run("document.getElementById('tip').hidden || document.querySelector('#tip b').textContent"))

    assert texts[0] == texts[2] < texts[1] < texts[3]
    assert texts[4] is True


@in_browser
def test_a_line_that_covers_another_one_has_other_dashes(tab: Browser, busy: Path) -> None:
    tab.open(busy)

    looks = tab.run("""[...document.querySelectorAll('figure.chart')].map(figure =>
        [...figure.querySelectorAll('.plot .line')].map(line => {
            const style = getComputedStyle(line);
            return style.stroke + style.strokeDasharray;
        }))""")
    dashes = tab.run("""[...document.querySelectorAll('figure.chart')].map(figure => ['.plot', '.legend'].map(place =>
        [...figure.querySelectorAll(place + ' .line')].map(line => getComputedStyle(line).strokeDasharray)))""")

    assert max(map(len, looks)) == 8
    for lines, (drawn, named) in zip(looks, dashes, strict=True):
        assert len(set(lines)) == len(lines)
        assert len(set(drawn[:2])) == len(drawn[:2])
        assert named == (drawn if len(drawn) > 1 else [])


@in_browser
@pytest.mark.parametrize(("key", "code"), [("Enter", 13), (" ", 32)], ids=["enter", "space"])
def test_a_line_is_switched_off_and_on_by_keyboard(tab: Browser, busy: Path, key: str, code: int) -> None:
    tab.open(busy)
    lines = "document.querySelectorAll('#traffic figure:first-of-type .plot .line').length"
    highest = "document.querySelector('#traffic figure:first-of-type .ups :last-child').textContent"
    tab.run("document.querySelector('#traffic .legend button').focus()")
    states = []

    for _ in range(3):
        states.append((tab.run("document.activeElement.ariaPressed"), tab.run(lines), tab.run(highest)))
        tab.press(key, code)

    assert [(pressed, count) for pressed, count, _ in states] == [("true", 2), ("false", 1), ("true", 2)]
    assert states[0] == states[2]


@in_browser
def test_what_is_switched_off_of_a_stack_is_not_in_its_sum(tab: Browser, busy: Path) -> None:
    tab.open(busy)
    shown = "[...document.querySelectorAll('#stuck .plot .area')].length"

    before = tab.run(shown)
    tab.run("document.querySelector('#stuck .legend button').click()")
    tab.run("document.querySelector('#stuck .plot').focus()")
    tab.press("End", 35)

    assert tab.run(shown) == before - 1
    name = tab.run("document.querySelector('#stuck .legend button').textContent")
    assert name not in tab.run("[...document.querySelectorAll('#tip div')].map(line => line.textContent)")
    assert "all queues" in tab.run("document.getElementById('tip').textContent")


@in_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_a_queue_that_is_chosen_is_all_that_drawings_and_tables_show(tab: Browser, busy: Path, width: int) -> None:
    tab.open(busy, width=width)

    tab.run(_CHOOSE % "UA")

    rows = "[...document.querySelectorAll('tbody tr[data-queue]')].filter(r => r.getClientRects().length)"
    assert set(tab.run(f"{rows}.map(row => row.dataset.queue)")) == {"UA"}
    drawn = tab.run("""[...document.querySelectorAll('#stuck figure, #traffic figure, #delays figure')].map(figure =>
        [figure.querySelectorAll('.plot .area, .plot .line').length, figure.querySelectorAll('.legend li').length])""")
    assert drawn == [[1, 0], [2, 2], *[[1, 0]] * 5]
    assert tab.run(
        "[...document.querySelectorAll('#commits figure')].every(f => f.querySelectorAll('.line').length > 1)"
    )
    assert tab.run("document.documentElement.scrollWidth") == width
    tab.run(_CHOOSE % "idle")
    assert tab.run("document.querySelector('#delays .without').getBoundingClientRect().height") > 20
    tab.run("document.querySelector('.choose button').click()")
    assert tab.run(f"{rows}.length") > 20
    assert tab.run("document.querySelectorAll('#stuck .plot .area').length") == 9
    assert tab.complaints == []


_CHOOSE = """(() => { const select = document.querySelector('.choose select');
    select.value = '%s'; select.dispatchEvent(new Event('change')); })()"""


@in_browser
def test_a_time_is_chosen_by_keyboard_and_all_drawings_over_time_follow(tab: Browser, busy: Path) -> None:
    tab.open(busy)
    tab.run("window.ends = document.querySelectorAll('.choose input')")

    tab.run("ends[0].focus()")
    for _ in range(3):
        tab.press("ArrowRight", 39)
    tab.run("ends[1].focus()")
    tab.press("ArrowLeft", 37)

    heads = tab.run("timed[0].heads")
    assert tab.run("[...document.querySelectorAll('.choose output')].map(o => o.textContent)") == [heads[3], heads[-2]]
    for section in ("stuck", "traffic", "commits"):
        tab.run(f"document.querySelector('#{section} .plot').focus()")
        tab.press("Home", 36)
        assert tab.run("document.querySelector('#tip b').textContent") == heads[3]
        tab.press("End", 35)
        assert tab.run("document.querySelector('#tip b').textContent") == heads[-3]
    tab.run("document.querySelector('#disk .plot').focus()")
    tab.press("Home", 36)
    assert tab.run("document.querySelector('#tip b').textContent") == "file 12"
    assert tab.complaints == []


@in_browser
def test_the_script_draws_what_is_drawn_without_it(tab: Browser, busy: Path) -> None:
    tab.open(busy)
    state = """figures.filter(one => one.isTimed).map(({figure}) => ({
        ticks: [...figure.querySelectorAll('.ups span, .alongs span')].map(tick => tick.textContent),
        legend: [...figure.querySelectorAll('.legend li')].map(item => item.textContent),
        shapes: [...figure.querySelectorAll('.plot path')].map(path => {
            const box = path.getBBox();
            return [box.x, box.y, box.width, box.height, path.getTotalLength() / 10].map(Math.round).join();
        }),
    }))"""

    before = tab.run(state)
    tab.run("pick('')")

    assert tab.run(state) == before
    assert len(before) == 11


@in_browser
def test_without_its_script_the_page_has_its_drawings_and_all_rows(tab: Browser, busy: Path) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(busy)
        found = tab.call("DOM.getDocument", depth=0)["root"]["nodeId"]
        text = tab.call("DOM.getOuterHTML", nodeId=found)["outerHTML"]
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)

    assert text.count("<figure") == 12
    assert text.count('class="legend"') >= 10
    assert 'class="choose"' not in text
    assert 'class="unfold"' not in text


@in_browser
def test_the_script_words_values_as_the_page_does(tab: Browser, busy: Path) -> None:
    tab.open(busy)
    values = [0, 1, 2, 0.05, 0.123, 1.26, 17.31, 99.96, 100.4, 999.6, 1000, 1023, 1024, 1536, 10_240, 123_456.7, 10**6]
    values += [7.1e8, 2**30, 5.4e10, 1e-6, 2.5e-5, 0.0125, 0.9999, 59.9, 59.96, 61, 3599.7, 3700, 86_401, 9e6]

    for form, (word, short) in _WORDS.items():
        told = [value for value in values if form == "duration" or not 0 < value < 1e-4]
        said = tab.run(f"{told}.map(value => WORDS.{form}.map(word => word(value)))")
        assert said == [[word(value), short(value)] for value in told], form


_WORDS = {
    "number": (wording.number, wording.short_number),
    "size": (wording.size, wording.short_size),
    "duration": (wording.duration, wording.short_duration),
}


@in_browser
def test_the_page_prints(tab: Browser, busy: Path) -> None:
    tab.open(busy)

    paper = tab.printed()

    assert paper.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 20


@in_browser
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("what", ["empty", "one"])
def test_the_smallest_journals_have_a_page(tab: Browser, tmp_path: Path, what: str, width: int) -> None:
    path = _page(tmp_path, *_smallest(what))

    tab.open(path, width=width)

    assert tab.complaints == []
    assert tab.requests == [path.as_uri()]
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run("document.querySelectorAll('section').length") == 7
    assert (tab.run("document.querySelectorAll('svg').length") > 0) == (what == "one")


def _smallest(what: str) -> tuple[report_tables.Rows, World]:
    from oms_journal.analysis.report.drawing.scales import buckets
    from oms_journal.analysis.report.wording import microseconds

    world = World(queues=("alone",), files=1, pieces=buckets(microseconds(LAST), microseconds(LAST), 240))
    rows: report_tables.Rows = {}
    if what == "one":
        named = {"database": DATABASE, "queue": "alone"}
        counts = {"added": 1, "delivered": 0, "deleted": 0, "undelivered": 1}
        waits = {"oldest": 1, "oldest_added": LAST, "oldest_age_seconds": 0.0}
        once = {"writes": 1, "commits": 1, "operations": 1, "commits_per_write_max": 1, "operations_per_commit_max": 1}
        file = {"sequence": 1, "active": True, "bytes": 856, "live_bytes": 1, "dead_bytes": 855, "needed": True}
        rows = {
            "lifecycle": [{**named, **counts, **waits}],
            "rate": [{**named, "bucket": LAST, "operation": "ADD", "operations": 1, "bytes": 1}],
            "backlog": [{**named, "bucket": LAST, "undelivered": 1}],
            "commits": [{"database": DATABASE, "bucket": LAST, **once}],
            "retention": [{"database": DATABASE, **file, "pins_files": 0, "freed_by_compact": 0, **_PIN}],
        }
    return rows, world


_PIN = {"pinned_by": "message", "pin_message": 1, "pin_queue": "alone", "pin_age_seconds": 0.0}


def test_an_empty_journal_is_told_in_words(tmp_path: Path) -> None:
    rows, world = _smallest("empty")

    told = _told(tmp_path, rows, world, first_time=None, last_time=None, operations=0, files=0, bytes=0)
    said = told.said()

    assert said["stuck"] == "Nothing waits: there are no messages."
    assert said["traffic"] == "Nothing came and nothing went."
    assert said["disk"] == "There are no data files."
    assert said["lost"] == "Nothing that was promised is lost."


def test_a_journal_of_one_operation_is_told_in_words(tmp_path: Path) -> None:
    rows, world = _smallest("one")

    told = _told(tmp_path, rows, world, first_time=LAST, last_time=LAST, operations=1, files=1, bytes=856)

    said, shared = told.said(), told.section("commits").verdict
    assert said["stuck"] == "1 message waits in 1 queue. The oldest has waited 0 s: number 1 in alone."
    assert said["traffic"] == "1 operation at 2026-11-21 15:04:00 UTC, 1 B of payload."
    assert said["disk"] == "856 B in 1 file, of which 0.1 % is still needed."
    assert said["commits"] == "There is one write, of 1 operation."
    assert (shared.value, *shared.detail) == ("1", "operation a write, 1 commit a write")


@pytest.mark.whole
def test_thousands_of_queues_and_files_make_no_large_page(tmp_path: Path) -> None:
    world = World(queues=[f"queue-{number:05}" for number in range(1500)], files=5000)
    world = World(queues=world.queues, files=world.files, pieces=report_tables.pieces(6))
    told = _told(tmp_path, report_tables.invented(world), world)

    text = page(told.facts, told.sections)

    assert len(text.encode()) < PAGE_BYTES_MAX
    assert "… and 1,400 more: the table <code>lifecycle</code> has them all." in text
    assert "1,492 other queues" in text
    assert told.section("disk").figures["together"] == -(-5000 // 240)


def test_queues_of_several_databases_are_told_apart(tmp_path: Path) -> None:
    world = World(queues=("orders", "other"), files=2, databases=("a" * 32, "b" * 32), pieces=report_tables.pieces(4))

    told = _told(tmp_path, report_tables.invented(world), world)

    labels = {"orders (aaaaaaaa)", "orders (bbbbbbbb)", "other (aaaaaaaa)", "other (bbbbbbbb)"}
    assert set(re.findall(r">([^<>]*)</bdi></td>", told.section("stuck").parts[1])) == labels
    assert set(told.series("Operations")) == labels


def test_nothing_on_the_page_leads_away_from_it(busy: Path) -> None:
    text = busy.read_text(encoding="utf-8")

    addresses = re.findall(r"<[^>]*\b(?:src|href|action|data|poster)=\"([^\"]*)\"", text)

    assert {address for address in addresses if not address.startswith("#")} == set()
    assert "@import" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text.split("<style>")[0].replace("&#x27;", "'")


def test_the_page_and_the_summary_say_the_same(busy: Path, tmp_path: Path) -> None:
    told = _told(tmp_path, report_tables.invented())

    shown = re.findall(r'<p class="answer[^"]*">(.*?)</p>', busy.read_text(encoding="utf-8"))

    assert len(shown) == len(told.said()) == 7
    assert "UA" in told.said()["stuck"]


def test_what_was_chosen_stands_at_the_top(tmp_path: Path) -> None:
    path = _page(
        tmp_path, report_tables.invented(), since=FIRST, until=LAST - timedelta(hours=1), queues_wanted=(EVIL,)
    )

    header = path.read_text(encoding="utf-8").split("<header>")[1].split("</header>")[0]

    assert "since 2026-11-18 03:12:00 UTC, until 2026-11-21 14:04:00 UTC, queue " in header
    assert "ages as of 2026-11-21 14:04:00 UTC" in header
    assert "<script" not in header


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>&amp;</b>", "&lt;b&gt;&amp;amp;&lt;/b&gt;"),
        ("\"'", "&quot;&#x27;"),
        ("a\nb\r\x00", "a\\nb\\r\\x00"),
        ("\u202egnp.exe\u2066\u200f", "\\u202egnp.exe\\u2066\\u200f"),
        ("שלום", "שלום"),
    ],
)
def test_text_is_shown_as_what_it_is(text: str, shown: str) -> None:
    assert escaped(text) == shown
    assert tag("p", text, title=text) == f'<p title="{shown}">{shown}</p>'


def test_markup_made_here_is_not_escaped_again() -> None:
    assert tag("p", tag("b", "<"), "&") == "<p><b>&lt;</b>&amp;</p>"


def test_a_long_name_is_shortened_and_the_pointer_shows_it_whole() -> None:
    shown = name("q" * 255)

    assert f'title="{"q" * 255}"' in shown
    assert len(re.sub(r"<[^>]*>", "", shown)) <= 48


@pytest.mark.whole
def test_data_for_the_script_cannot_end_its_element() -> None:
    element = data({"a": "</script><!--", "b": "]]>\u2028&"})

    assert element.count("<") == 2
    assert "&" not in element
