"""The console: a page that a broker serves, in a real browser, of a server that runs."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.client.connect import connect
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.server.http.console import HEADERS, parts
from tests.support.broker.held_stores import mark_restored
from tests.support.servers.browser import Browser, browser, needs_browser
from tests.support.servers.guarded_server import PASSWORDS, Files
from tests.support.servers.stomp_server import Serving, Wire

pytestmark = pytest.mark.whole  # a browser and a server take twenty seconds of a processor

ROOMS = ("overview", "services", "units", "conversations", "topics", "clients", "files")
EVIL = "<img src=x onerror=alert(1)>"
WIDE, NARROW = 1280, 400
CLEAN_UP = "[...document.querySelectorAll('main .buttons button')].find((each) => each.textContent === 'Clean up')"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with something of everything in it."""
    with Serving(tmp_path_factory.mktemp("console") / "spool") as server:
        wire = Wire(server.port)
        for number in range(3):
            send(wire, "/queue/orders", receipt=f"o{number}")
        send(wire, f"/queue/{EVIL}", receipt="evil")
        wire.say("SUBSCRIBE", id="n", destination="/topic/NEWS", durable="true", ack="client", receipt="sub")
        assert wire.hear().command == "RECEIPT"
        yield server
        wire.close()


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as started:
        yield started


def send(wire: Wire, destination: str, body: bytes = b"a", *, receipt: str) -> None:
    wire.say("SEND", body, destination=destination, receipt=receipt)
    while (frame := wire.hear()).command != "RECEIPT":
        assert frame.command == "MESSAGE"


def address(serving: Serving, path: str = "/") -> str:
    return f"http://127.0.0.1:{serving.http_port}{path}"


def fetch(serving: Serving, path: str, **headers: str) -> HTTPResponse:
    request = urllib.request.Request(address(serving, path), headers=headers)
    answered: HTTPResponse = urllib.request.urlopen(request, timeout=20)
    return answered


def answer(serving: Serving, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.load(fetch(serving, path))
    return found


def enter(tab: Browser, serving: Serving, room: str, *, width: int = WIDE, dark: bool = False) -> None:
    """Open a room, and wait until it shows what it was told."""
    tab.open(address(serving, f"/#{room}"), width=width, dark=dark)
    tab.wait("document.getElementById('fresh').textContent.startsWith('As of')")


def use(tab: Browser, selector: str) -> None:
    """Do as somebody without a mouse does: go to the button, and press Enter."""
    tab.wait(
        f"(() => {{ const node = document.querySelector({json.dumps(selector)}); node?.focus();"
        " return node !== null && document.activeElement === node; })()"
    )
    tab.press("Enter", 13)


def fill(tab: Browser, name: str, text: str) -> None:
    """Go to a field, and type a text in the place of what is in it."""
    tab.run(f"document.getElementById('{name}').value = ''; document.getElementById('{name}').focus()")
    tab.call("Input.insertText", text=text)


def data_files(serving: Serving) -> list[str]:
    return sorted(each.name for each in serving.spool.glob("*.data"))


def rows(tab: Browser) -> list[str]:
    found: list[str] = tab.run("[...document.querySelectorAll('tbody tr')].map((row) => row.innerText)")
    return found


# Without a browser.


def test_the_page_may_load_run_and_ask_nothing_from_elsewhere(serving: Serving) -> None:
    found = fetch(serving, "/")
    assert found.headers.get_content_type() == "text/html"
    for name, value in HEADERS.items():
        assert found.headers[name] == value
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for name, (data, _) in parts().items():
        assert not re.search(rb"https?://(?!www\.w3\.org/2000/svg)", data), f"{name} names another place"


def test_every_part_that_the_page_and_its_scripts_name_is_served(serving: Serving) -> None:
    named = set(re.findall(r'"console/([\w.]+)"', parts()["index.html"][0].decode()))
    for name, (data, _) in parts().items():
        if name.endswith(".js"):
            named |= set(re.findall(r'from "\./([\w.]+)"', data.decode()))
    assert len(named) > len(ROOMS)
    assert named | {"index.html"} == set(parts()), "a part that nobody names, or one that is not there"
    for name in sorted(named):
        assert fetch(serving, f"/console/{name}").read() == parts()[name][0]


def test_what_a_browser_has_already_is_not_sent_again(serving: Serving) -> None:
    tag = fetch(serving, "/console/main.js").headers["ETag"]
    with pytest.raises(urllib.error.HTTPError) as same:
        fetch(serving, "/console/main.js", **{"If-None-Match": tag})
    with same.value as answered:
        assert answered.code == 304 and answered.read() == b""


@pytest.mark.parametrize("name", ["nothing.js", "..%2fconsole.py", "%2e%2e%2fserving.py", "index.html%00"])
def test_nothing_but_the_parts_of_the_console_is_served(serving: Serving, name: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetch(serving, f"/console/{name}")
    with refused.value as answered:
        assert answered.code in (400, 404)


def test_markup_is_never_made_of_text() -> None:
    for each in Path(str(files("oms_journal.broker.server.http") / "page")).glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", each.read_text()), each


# In a browser.


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(WIDE, False), (NARROW, True)], ids=["wide-light", "narrow-dark"])
@pytest.mark.parametrize("room", ROOMS)
def test_every_room_fits_the_window_and_complains_of_nothing(
    tab: Browser, serving: Serving, room: str, width: int, dark: bool
) -> None:
    enter(tab, serving, room, width=width, dark=dark)
    assert tab.complaints == []
    assert tab.run("document.getElementById('trouble').hidden")
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert all(each.startswith(address(serving)) for each in tab.requests), tab.requests
    assert tab.run("document.querySelector('#rooms [aria-current=page]').getAttribute('href')") == f"#{room}"
    paper = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) is dark


@needs_browser
def test_every_room_is_reached_by_its_key(tab: Browser, serving: Serving) -> None:
    enter(tab, serving, "files")
    for number, room in enumerate(ROOMS, 1):
        tab.press(str(number), 48 + number)
        tab.wait(f"document.querySelector('#rooms [aria-current=page]').getAttribute('href') === '#{room}'")


@needs_browser
def test_the_overview_shows_what_waits_and_draws_it(tab: Browser, serving: Serving) -> None:
    enter(tab, serving, "overview")
    tab.wait("document.querySelectorAll('.figures svg').length === 2")
    waiting = tab.wait("document.querySelector('.tiles .value')?.textContent")
    assert waiting == str(sum(row["waiting"] for row in answer(serving, "/info/SERVICE")["rows"]))
    assert tab.wait("document.querySelectorAll('.histogram li').length") >= 1
    # A second look makes lines of points.
    tab.wait("[...document.querySelectorAll('.figures .line')].every((line) => line.getAttribute('d').includes('L'))")


@needs_browser
def test_a_service_whose_name_is_markup_is_shown_as_text(tab: Browser, serving: Serving) -> None:
    enter(tab, serving, "services")
    tab.wait("document.querySelectorAll('tbody tr').length > 1")
    assert any(EVIL in row for row in rows(tab))
    assert tab.run("document.querySelectorAll('tbody img').length") == 0


@needs_browser
@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (0.0004, "400 µs"),
        (0.0013, "1.3 ms"),
        (0.013, "13 ms"),
        (0.1, "100 ms"),
        (0.127, "127 ms"),
        (0.9999, "999 ms"),
        (1, "1.0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
    ],
)
def test_a_length_of_time_is_shown_in_its_own_size(tab: Browser, serving: Serving, seconds: float, shown: str) -> None:
    enter(tab, serving, "overview")
    source = (
        (files("oms_journal.broker.server.http") / "page" / "dom.js")
        .read_text("utf-8")
        .replace("export function", "function")
    )
    assert tab.run(f"(() => {{ {source}; return age({seconds}); }})()") == shown


@needs_browser
def test_who_is_there_is_shown_as_logged_on_or_not(tab: Browser, serving: Serving) -> None:
    enter(tab, serving, "clients")
    tab.wait("document.querySelectorAll('tbody tr').length >= 1")
    assert [row["logged_on"] for row in answer(serving, "/info/PARTICIPANT")["rows"]] == [True] * len(rows(tab))
    assert all("yes" in row for row in rows(tab)), rows(tab)
    assert not any("1970" in row for row in rows(tab)), rows(tab)


@needs_browser
def test_the_filter_of_services_leaves_those_with_that_part_of_a_name(tab: Browser, serving: Serving) -> None:
    enter(tab, serving, "services")
    tab.wait("document.querySelectorAll('tbody tr').length > 1")
    tab.press("/", 191)
    assert tab.run("document.activeElement.id") == "filter"
    tab.call("Input.insertText", text="ORDER")
    tab.wait("document.querySelectorAll('tbody tr').length === 1")
    assert "orders" in rows(tab)[0]


@needs_browser
def test_a_purge_is_asked_once_more_and_then_the_unit_of_work_is_gone(tab: Browser, serving: Serving) -> None:
    wire = Wire(serving.port)
    send(wire, "/queue/to-purge", receipt="p")
    wire.close()
    enter(tab, serving, "units?server_class=QUEUE&server_name=to-purge&status=ACCEPTED")
    tab.wait("document.querySelectorAll('tbody tr').length === 1")
    for answered, left in (("no", 1), ("yes", 0)):
        use(tab, "tbody .deeds button:last-child")
        tab.wait("document.getElementById('confirm').open")
        assert "Purge" in tab.run("document.getElementById('confirm-what').textContent")
        use(tab, f"#confirm-{answered}")
        tab.wait("!document.getElementById('confirm').open")
        tab.wait(f"document.querySelectorAll('tbody tr').length === {left}")
        units = answer(serving, "/info/PSF?server_class=QUEUE&server_name=to-purge")["rows"]
        assert len(units) == left
    assert "Purge" in tab.run("document.getElementById('said').innerText")


@needs_browser
def test_what_is_held_since_a_restore_needs_attention_and_is_released_and_discarded(
    tab: Browser, tmp_path: Path
) -> None:
    spool = tmp_path / "held"
    with Broker.open(spool) as broker, broker.session("ALICE", token="T") as alice:
        alice.subscribe("NEWS", durable=True)
        for _ in range(3):
            alice.send("A/B/C", b"x")
        alice.publish("NEWS", b"rain")
    mark_restored(spool)
    with Serving(spool) as restored:
        enter(tab, restored, "overview")
        tab.wait("document.querySelector('.verdict').innerText.includes('3 units of work are held after a restore')")
        assert "1 publication is held" in tab.run("document.querySelector('.verdict').innerText")
        enter(tab, restored, "units?held=yes")
        tab.wait("document.querySelectorAll('tbody tr').length === 3")
        assert all("held" in row for row in rows(tab))
        use(tab, "tbody .deeds button:first-child")
        tab.wait("document.getElementById('confirm').open")
        use(tab, "#confirm-yes")
        tab.wait("document.querySelectorAll('tbody tr').length === 2")
        enter(tab, restored, "overview")
        use(tab, ".held button:nth-child(2)")
        tab.wait("document.getElementById('confirm').open")
        fill(tab, "confirm-input", answer(restored, "/info/BROKER")["rows"][0]["broker_id"])
        tab.wait("!document.getElementById('confirm-yes').disabled")
        use(tab, "#confirm-yes")
        tab.wait("document.querySelectorAll('.held button').length === 2")
        enter(tab, restored, "topics")
        tab.wait("document.querySelectorAll('tbody .deeds button').length === 3")
        use(tab, "tbody .deeds button:first-child")
        tab.wait("document.getElementById('confirm').open")
        use(tab, "#confirm-yes")
        tab.wait("document.querySelectorAll('tbody .deeds button').length === 1")
        enter(tab, restored, "overview")
        tab.wait("document.querySelectorAll('.held button').length === 0")
        found = answer(restored, "/info/BROKER")["rows"][0]
        assert (found["held_uows"], found["held_publications"], found["active_uows"]) == (0, 0, 1)


@needs_browser
def test_escape_leaves_everything_as_it_is(tab: Browser, serving: Serving) -> None:
    enter(tab, serving, "units?status=ACCEPTED")
    tab.wait("document.querySelectorAll('tbody tr').length > 2")
    before = answer(serving, "/info/PSF")["rows"]
    use(tab, "tbody .deeds button:last-child")
    tab.wait("document.getElementById('confirm').open")
    tab.press("Escape", 27)
    tab.wait("!document.getElementById('confirm').open")
    assert [row["uowid"] for row in answer(serving, "/info/PSF")["rows"]] == [row["uowid"] for row in before]


@needs_browser
def test_new_units_of_work_are_refused_and_allowed_again(tab: Browser, serving: Serving) -> None:
    enter(tab, serving, "overview")
    tab.wait("document.querySelectorAll('main .buttons button').length === 4")
    use(tab, "main .buttons button")
    tab.wait("document.getElementById('confirm').open")
    use(tab, "#confirm-yes")
    tab.wait("document.querySelector('#states .warn') !== null")
    assert answer(serving, "/info/BROKER")["rows"][0]["new_uow_messages"] is False
    tab.wait("document.querySelector('main .buttons button').textContent.startsWith('Allow')")
    use(tab, "main .buttons button")
    tab.wait("!document.querySelector('#states .warn')")


@needs_browser
def test_a_clean_up_is_asked_once_more_and_says_what_it_has_freed(tab: Browser, tmp_path: Path) -> None:
    file = tmp_path / "etbfile"
    file.write_text("DEFAULTS=BROKER\n DEFAULT-VALUES=OMS\nDEFAULTS=JOURNAL\n MAX-DATA-FILE-SIZE=64K\n")
    with Serving(tmp_path / "spool", str(file)) as server:
        with connect(address(server, "")) as broker, broker.session("ALICE", token="T") as alice:
            alice.register("A/B/C")
            for _ in range(4):
                alice.send("A/B/C", bytes(40_000))
                unit = alice.receive_unit(wait=0)
                assert unit is not None
                unit.commit()
        enter(tab, server, "overview")
        tab.wait(f"{CLEAN_UP} !== undefined")
        before = data_files(server)
        for answered in ("no", "yes"):
            assert data_files(server) == before
            tab.run(f"{CLEAN_UP}.focus()")
            tab.press("Enter", 13)
            tab.wait("document.getElementById('confirm').open")
            assert "Clean up" in tab.run("document.getElementById('confirm-what').textContent")
            use(tab, f"#confirm-{answered}")
            tab.wait("!document.getElementById('confirm').open")
        said = tab.wait("document.getElementById('said').innerText")
        assert re.fullmatch(r"Clean up: [1-9]\d* files? gone, [\d.]+ \w+ freed ×", said), said
        assert len(data_files(server)) < len(before)
        assert tab.complaints == []


@needs_browser
def test_a_store_without_data_files_has_nothing_to_clean_up(tab: Browser, tmp_path: Path) -> None:
    file = tmp_path / "etbfile"
    file.write_text("DEFAULTS=BROKER\n DEFAULT-VALUES=OMS\n PSTORE-TYPE=SQLITE\n")
    with Serving(tmp_path / "spool", str(file)) as server:
        enter(tab, server, "overview")
        tab.wait("document.querySelectorAll('main .buttons button').length === 3")
        assert tab.run(f"{CLEAN_UP} === undefined")


@needs_browser
def test_a_broker_without_a_store_is_looked_at_like_any_other(tab: Browser, tmp_path: Path) -> None:
    file = tmp_path / "etbfile"
    file.write_text("DEFAULTS=BROKER\n DEFAULT-VALUES=OMS\n PSTORE=NO\n")
    with Serving(tmp_path / "spool", str(file)) as server:
        for room, shown in (("overview", "Nothing: the store is well"), ("files", "has no persistent store")):
            enter(tab, server, room)
            tab.wait(f"document.querySelector('main').innerText.includes('{shown}')")
            assert tab.run("document.getElementById('trouble').hidden")
        enter(tab, server, "overview")
        tab.wait("document.querySelectorAll('main .buttons button').length === 1")
        assert tab.complaints == []


@needs_browser
def test_a_broker_is_shut_down_only_by_who_types_its_name_and_the_page_says_that_it_is_gone(
    tab: Browser, tmp_path: Path
) -> None:
    with Serving(tmp_path / "spool") as server:
        enter(tab, server, "overview")
        tab.wait("document.querySelectorAll('main .buttons button').length === 4")
        use(tab, "main .buttons button:last-child")
        tab.wait("document.getElementById('confirm').open")
        assert tab.run("document.getElementById('confirm-yes').disabled")
        tab.call("Input.insertText", text="ETB001")
        tab.wait("!document.getElementById('confirm-yes').disabled")
        tab.press("Enter", 13)
        tab.wait("!document.getElementById('trouble').hidden")
        assert "does not answer" in tab.run("document.getElementById('trouble').textContent")
        assert server.child.wait(20) == 0


@needs_browser
def test_where_there_are_users_the_page_asks_who_it_is_and_shows_it(tab: Browser, tmp_path: Path) -> None:
    with Files(tmp_path, has_tls=False).serve() as server:
        tab.open(address(server, "/#services"))
        tab.wait("document.getElementById('login')?.open")
        for password, is_right in (("something else", False), (PASSWORDS["ROOT"], True)):
            fill(tab, "login-user", "ROOT")
            fill(tab, "login-password", password)
            tab.press("Enter", 13)
            if not is_right:
                tab.wait("document.getElementById('login-refused').textContent !== ''")
                assert tab.run("document.getElementById('login').open")
        tab.wait("document.getElementById('fresh').textContent.startsWith('As of')")
        assert not tab.run("document.getElementById('login').open")
        assert tab.wait("document.getElementById('user-name').textContent") == "ROOT"
        assert PASSWORDS["ROOT"] not in tab.run("document.cookie + document.documentElement.outerHTML")
        use(tab, "#user-off")
        tab.wait("document.getElementById('login')?.open")
