"""Makes the pictures of the documents: python -m tests.docs.pictures [command] [console] [report]

Each shows the real thing: what `oms` prints, the console of a server that runs, the report on a journal.
"""

import base64
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from oms_journal import MessageDatabase, connect
from tests.support.cli_runner import command_line, environment
from tests.support.project import REPOSITORY
from tests.support.servers.browser import Browser, browser
from tests.support.servers.stomp_server import Serving

PICTURES = REPOSITORY / "docs" / "pictures"
BYTES_MAX = 200 << 10
COLUMNS = 92
FONTS = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def draw_command(target: Path, folder: Path) -> None:
    """Show `oms stats` and `oms explain` on a database of some days' work."""
    spool = folder / "spool"
    hour = 3_600_000_000
    now = [time.time_ns() // 1000 - 30 * hour]

    def clock() -> int:
        now[0] += hour // 500
        return now[0]

    chance = random.Random(4)
    with MessageDatabase.open(spool, max_data_file_size="1M", cleanup_interval=0, clock=clock) as db:
        db.add("letters", b"nobody fetches this one")
        for _ in range(7_000):
            number = db.add("orders", chance.randbytes(chance.randrange(200, 900)))
            if chance.random() < 0.97:
                db.deliver(number)
            if chance.random() < 0.01:
                db.put(f"customer {chance.randrange(40)}", b"%d" % number)
    said = Text()
    for words in (("stats",), ("explain",)):
        printed = _typed(folder, *words)
        said.append("$ ", style="bold green").append(f"oms {' '.join(words)} --spool spool\n", style="bold")
        said.append_text(Text.from_ansi(printed)).append("\n\n")
    said.rstrip()
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(said)
    template = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    template = template.replace("Fira Code, monospace", FONTS)
    svg = console.export_svg(title="oms", code_format=template, unique_id="oms")
    target.write_text("".join(f"{line.rstrip()}\n" for line in svg.splitlines()), encoding="utf-8")


def _typed(folder: Path, *words: str) -> str:
    variables = environment() | {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(
        command_line(*words, "--spool", "spool"), cwd=folder, env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout.rstrip().replace(str(folder), "/srv/shop")  # the folder of the moment tells nothing


SERVICES = ("SHOP/ORDERS/TAKE", "SHOP/INVOICES/PRINT", "BANK/PAYMENTS/BOOK", "GAME/CHESS/BLACK")


def draw_console(target: Path, folder: Path) -> None:
    """Show the first page of the console of a broker with work to do."""
    chance = random.Random(4)
    with (
        Serving(folder / "spool") as server,
        connect(f"http://127.0.0.1:{server.http_port}") as broker,
        broker.session("BOOKKEEPER", token="B1") as bookkeeper,
        broker.session("READER", token="R1") as reader,
    ):
        reader.subscribe("PRICES", durable=True)
        for service in SERVICES[1:]:
            bookkeeper.register(service)
        with broker.session("CUSTOMER", token="C1") as customer:
            for number in range(260):
                service = chance.choices(SERVICES, (6, 3, 2, 1))[0]
                customer.send(service, b"order %d" % number)
                if number % 40 == 0:
                    customer.publish("PRICES", b"%d" % number)
            work(bookkeeper, 75)
            with browser() as tab:
                tab.open(f"http://127.0.0.1:{server.http_port}/", width=1280)
                tab.wait("document.querySelector('main table, main .row, main svg') !== null")
                for number in range(300):  # half a minute, so that there is a line
                    customer.send(chance.choices(SERVICES, (6, 3, 2, 1))[0], b"order %d" % number)
                    if number % 3:
                        work(bookkeeper, 1)
                    time.sleep(0.1)
                _cut(tab, target, height=900)


def work(bookkeeper: Any, count: int) -> None:
    """Receive so many units of work and commit them."""
    for _ in range(count):
        unit = bookkeeper.receive_unit(wait=0.0)
        if unit is not None:
            with unit:
                list(unit)


def draw_report(target: Path, folder: Path) -> None:
    """Show the beginning of the report on the journal of some hours."""
    chance = random.Random(4)
    second = 1_000_000
    now = [time.time_ns() // 1000 - 9 * 3600 * second]

    def clock() -> int:
        return now[0]

    with MessageDatabase.open(
        folder / "spool", max_data_file_size="256K", cleanup_interval=0, compact_share=0, clock=clock
    ) as db:
        waiting: list[int] = []
        for step in range(6_000):
            now[0] += chance.randrange(2, 6) * second
            queue = chance.choices(("orders", "invoices", "letters"), (5, 3, 1))[0]
            number = db.add(queue, chance.randbytes(chance.randrange(50, 400)))
            if queue != "letters" or chance.random() < 0.9:  # the others nobody fetches
                waiting.append(number)
            is_slow = 2_500 < step < 3_500  # its consumer stood still for a while
            while waiting and not is_slow and chance.random() < 0.6:
                now[0] += chance.randrange(1, 30) * second // 10
                db.deliver(waiting.pop(0))
    words = command_line("analyze", "spool", "--out", "report")
    subprocess.run(words, cwd=folder, env=environment(), check=True)
    with browser() as tab:
        tab.open(folder / "report" / "report.html", width=1280)
        _cut(tab, target, height=1000)


def _cut(tab: Browser, target: Path, *, height: int) -> None:
    """Write the upper part of the page, as PNG."""
    clip = {"x": 0, "y": 0, "width": 1280, "height": height, "scale": 1}
    shot = tab.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    target.write_bytes(base64.b64decode(shot["data"]))


ALL: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "command": ("command.svg", draw_command),
    "console": ("console.png", draw_console),
    "report": ("report.png", draw_report),
}


def main(wanted: list[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    for name in wanted or ALL:
        file, draw = ALL[name]
        with tempfile.TemporaryDirectory(prefix="oms-picture-") as folder:
            draw(PICTURES / file, Path(folder))
        size = (PICTURES / file).stat().st_size
        sys.stdout.write(f"docs/pictures/{file}: {size // 1024} KiB\n")
        if size > BYTES_MAX:
            sys.exit(f"{file} is larger than {BYTES_MAX // 1024} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
