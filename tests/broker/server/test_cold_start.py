"""`oms serve --erase BROKER-ID`: the cold start of a server whose store holds something.

In the sample there is a store before the erasure; the whole has one without, too. Servers are processes; what is only
there to be erased, and a start that is refused, need none of their own.
"""

import json
import re
from pathlib import Path

import pytest

from oms_journal import Broker
from tests.support.cli_runner import oms
from tests.support.servers.stomp_server import Serving, Wire
from tests.support.sweeps import split

FREE_PORTS = ("--stomp-port", "0", "--http-port", "0")


def attribute_file(place: Path, text: str) -> Path:
    """Write an attribute file with these values of the broker."""
    file = place / "etbfile"
    file.write_text(f"DEFAULTS=BROKER\n DEFAULT-VALUES=OMS\n {text}\n")
    return file


def fill(spool: Path, attributes: Path | None = None) -> None:
    """Let a broker's store hold one unit of work."""
    with (
        Broker.open(spool, attributes=attributes, create=True) as broker,
        broker.session("SOMEBODY") as session,
    ):
        session.send("QUEUE/Q/-", b"precious")


def serve_and_fill(spool: Path, *arguments: str) -> None:
    """Let a server's store hold one unit of work."""
    with Serving(spool, *arguments) as server:
        client = Wire(server.port)
        client.say("SEND", b"precious", destination="/queue/Q", receipt="1")
        assert client.hear().command == "RECEIPT"
        client.close()


def queued(spool: Path) -> str:
    return oms("list", spool=spool).stdout


def refusal(*arguments: str, spool: Path, code: int = 4) -> str:
    """Return what a start that is refused says."""
    return oms("serve", *arguments, *FREE_PORTS, spool=spool, code=code).stderr


@pytest.mark.whole
def test_the_refusal_of_a_cold_start_says_the_command_that_confirms_it(tmp_path: Path) -> None:
    spool, file = tmp_path / "spool", attribute_file(tmp_path, "PSTORE=COLD")
    fill(spool)

    said = refusal(str(file), spool=spool)

    assert "1 messages" in said and "nothing was changed" in said
    confirmed = re.search(r"--erase \w+", said)
    assert confirmed is not None and confirmed[0] == "--erase ETB001"
    assert "QUEUE/Q" in queued(spool)
    with Serving(spool, str(file), *confirmed[0].split()) as server:
        server.stop()
        (told,) = [line for line in server.log if "cold start erases" in line["text"]]
        assert told["level"] == "warning" and "broker ETB001" in told["text"]
    assert "QUEUE/Q" not in queued(spool)
    fill(spool)
    assert "--erase ETB001" in refusal(str(file), spool=spool), "one start alone"


@pytest.mark.whole
def test_erase_makes_this_start_a_cold_one_whatever_pstore_says(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    fill(spool)
    with Serving(spool, "--erase", "ETB001"):
        pass
    assert "QUEUE/Q" not in queued(spool)


@pytest.mark.whole
@pytest.mark.parametrize("is_there", split([True], [False]))
def test_the_same_command_again_erases_nothing_that_came_behind_the_erasure(tmp_path: Path, is_there: bool) -> None:
    """So does systemd, or whoever starts a container again: after a crash, or with the machine."""
    spool, command = tmp_path / "spool", ("--erase", "ETB001")
    if is_there:
        fill(spool)
    with Serving(spool, *command):
        pass
    assert "QUEUE/Q" not in queued(spool)
    serve_and_fill(spool, *command)  # nothing had come: there is nothing to lose

    said = refusal(*command, spool=spool)

    assert "1 messages" in said and "without --erase" in said and "nothing was changed" in said
    assert "QUEUE/Q" in queued(spool)
    with Serving(spool):
        pass
    assert "QUEUE/Q" in queued(spool)
    with Serving(spool, *command):
        pass
    assert "QUEUE/Q" not in queued(spool), "a start had gone on with it"


def test_the_store_of_another_broker_is_erased_with_force_cold_and_its_own_id(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    fill(spool, attribute_file(tmp_path, "BROKER-ID=OTHER"))
    without = refusal("--erase", "OTHER", spool=spool)
    assert "FORCE-COLD=Y" in without and "--erase OTHER" in without

    file = attribute_file(tmp_path, "PSTORE=COLD FORCE-COLD=Y")
    assert "--erase OTHER" in refusal(str(file), spool=spool)
    assert "--erase OTHER, not ETB001" in refusal(str(file), "--erase", "ETB001", spool=spool)
    assert "QUEUE/Q" in queued(spool)
    with Serving(spool, str(file), "--erase", "OTHER"):
        pass
    assert "QUEUE/Q" not in queued(spool)


@pytest.mark.whole
@pytest.mark.parametrize("is_there", [True, False])
def test_the_id_of_another_broker_is_refused_also_where_nothing_is_there_to_erase(
    tmp_path: Path, is_there: bool
) -> None:
    spool = tmp_path / "spool"
    if is_there:
        with Serving(spool):
            pass

    said = refusal("--erase", "OTHER", spool=spool)

    assert "of broker OTHER" in said and "--erase ETB001" in said and "nothing was changed" in said
    with Serving(spool, "--erase", "ETB001"):
        pass


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--run-mode", "STANDBY", "--partner", "localhost:1"), "RUN-MODE=STANDARD"),
        pytest.param(
            ("--run-mode", "PSTORE-LOAD", "--partner", "localhost:1"), "RUN-MODE=STANDARD", marks=pytest.mark.whole
        ),
        (("--systemd-unit",), "each restart"),
        (("PSTORE=NO",), "PSTORE=NO"),
        pytest.param(("RUN-MODE=STANDBY",), "RUN-MODE=STANDARD", marks=pytest.mark.whole),
    ],
)
def test_a_start_that_has_nothing_to_erase_refuses_to_be_told_to(
    tmp_path: Path, arguments: tuple[str, ...], expected: str
) -> None:
    spool = tmp_path / "spool"
    fill(spool)
    if not arguments[0].startswith("--"):
        text = f"{arguments[0]} PARTNER-CLUSTER-ADDRESS=localhost:1:TCP PSTORE=HOT"
        arguments = (str(attribute_file(tmp_path, text if "RUN" in arguments[0] else arguments[0])),)
    assert expected in refusal(*arguments, "--erase", "ETB001", spool=spool, code=2)
    assert "QUEUE/Q" in queued(spool)


def test_a_refused_cold_start_is_one_line_for_tools(tmp_path: Path) -> None:
    spool, file = tmp_path / "spool", attribute_file(tmp_path, "PSTORE=COLD")
    fill(spool)
    said = refusal(str(file), "--json", spool=spool).splitlines()
    assert "--erase ETB001" in json.loads(said[-1])["message"]
