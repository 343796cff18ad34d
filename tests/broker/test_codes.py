"""The return codes: every one of the manual with its own text, found by its digits."""

import ast
import inspect
import re

import pytest

from oms_journal.broker import codes
from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.advice import ADVICE
from oms_journal.broker.answers import Answered
from oms_journal.broker.block import Reply
from oms_journal.broker.block_json import decode_answer, encode_answer
from oms_journal.broker.codes import BrokerError, Code, detailed, refuse
from oms_journal.broker.server.stomp.frames import Frame
from oms_journal.broker.server.stomp.headers import error_frame
from tests.support.project import REPOSITORY
from tests.support.sweeps import for_each
from tests.support.wrong_inputs import FORBIDDEN, faults_of

# Every code that the manuals name, class by class.
OF_THE_MANUAL = {
    "0002": "0002",
    "0003": "0003 0005 0010 0011 0012 0067 0073",
    "0007": "0007",
    "0008": "0001 0002 0003 0004 0005 0006 0007 0008 0009 0010 0011 0012 0254 0255 0350 0351 0352 0353 0400 0401 0402",
    "0010": "0050 0051",
    "0020": "0004 0031 0094 0098 0134 0181 0182 0185 0187 0188 0191 0193 0194 0195 0199 0200 0216 0218 0229 0252 0267"
    " 0302 0311 0312 0335 0336 0472 0478 0485 0494 0505 0563 0639 0801",
    "0021": "0023 0027 0028 0034 0043",
    "0036": "0476 0477",
    "0037": "0041 0042 0057 0061 0230 0445",
    "0074": "0009 0074 0300 0301 0345 0346 0347",
    "0078": "0304 0305 0306 0307 0308 0309 0310 0313 0337 0350 0351 0356 0388 0389 0624",
    "0215": "0128 0148 0373",
}


@pytest.mark.parametrize("error_class", OF_THE_MANUAL)
def test_every_code_of_the_manual_has_its_text(error_class: str) -> None:
    for number in OF_THE_MANUAL[error_class].split():
        code = Code(error_class + number)

        assert code.text
        assert (code.error_class, code.number) == (error_class, number)


def test_no_two_codes_read_alike() -> None:
    assert len({code.text for code in Code}) == len(Code)
    assert len({code.value for code in Code}) == len(Code)


@for_each("code", Code)
def test_a_code_is_eight_digits_and_a_sentence_without_a_full_stop(code: Code) -> None:
    assert re.fullmatch(r"[0-9]{8}", code.value)
    assert code.text[0].isupper() and not code.text.endswith(".")
    assert Code(code.value) is code


def test_what_samples_are_told_reads_as_in_the_manual() -> None:
    """EntireX, Using Persistence and Units of Work: the two codes that its text quotes."""
    assert str(Code.END_OF_UOW) == "00740301 Conversation found: end of unit of work"
    assert str(Code.UOW_NOT_FOUND) == "00780305 UOW not found"


def test_every_class_of_a_code_is_explained() -> None:
    document = inspect.getdoc(codes) or ""
    explained = set(re.findall(r"^    ([0-9]{4})   \S", document, re.MULTILINE))

    assert explained == {code.error_class for code in Code}


def test_an_unknown_code_is_no_code() -> None:
    with pytest.raises(ValueError):
        Code("00990099")


def test_an_error_carries_its_code_and_its_text() -> None:
    plain = BrokerError(Code.UOW_NOT_FOUND)
    told = refuse(Code.MAX_UOWS, "100")

    assert (plain.code, plain.text, str(plain)) == (Code.UOW_NOT_FOUND, "UOW not found", "00780305 UOW not found")
    assert str(told) == "00740345 MAX-UOWS of the service reached: 100"
    assert detailed(Code.MAX_UOWS, "") == Code.MAX_UOWS.text


# What people are told.

VERBS = {
    *(
        "ask",
        "back",
        "begin",
        "call",
        "choose",
        "commit",
        "correct",
        "define",
        "deregister",
        "discard",
        "end",
        "finish",
    ),
    *("give", "let", "log", "look", "name", "read", "receive", "register", "say", "send", "start", "subscribe", "tell"),
    *("try", "use", "wait", "write"),
}
TOLD = [code for code in Code if code is not Code.OK]


def test_every_code_but_done_says_what_to_do_and_nothing_else_does() -> None:
    assert set(ADVICE) == {code.value for code in TOLD}
    assert {code for code in Code if not code.advice} == {Code.OK}


@for_each("code", TOLD)
def test_the_advice_of_a_code_is_a_sentence_that_begins_with_what_to_do(code: Code) -> None:
    assert code.advice.split()[0] in VERBS, code.advice
    assert not code.advice.endswith((".", ";", ",")) and len(code.advice) <= 110
    assert code.text.lower() not in code.advice.lower()
    assert faults_of(f"{code}: {code.advice}", (str(code.value),)) == []


@for_each("code", TOLD)
def test_whoever_is_told_a_code_is_told_what_to_do(code: Code) -> None:
    """As an exception in a traceback, over STOMP, and over HTTP."""
    raised = refuse(code, "of this case")
    frame = error_frame(code, raised.text, Frame("SEND", {"destination": "/queue/A", "receipt": "1"}))
    answered = encode_answer(Answered(Reply(code=code, text=raised.text)))

    assert raised.__notes__ == [code.advice]
    first, second, third = frame.body.decode().splitlines()
    assert first == f"{code.value} {code.text}: of this case" == frame.headers["message"]
    assert second == "of the frame SEND to /queue/A"
    assert third.lower() == f"{code.advice}.".lower() and third[0].isupper()
    assert faults_of(frame.body.decode(), (str(code.value), code.text)) == []
    assert (answered["error_code"], answered["error_advice"]) == (code.value, code.advice)
    assert decode_answer(answered).reply.code is code


def test_what_is_done_needs_no_advice() -> None:
    assert "error_advice" not in encode_answer(Answered(Reply()))


@for_each("code", CommandCode)
def test_what_an_operator_is_told_is_a_sentence(code: CommandCode) -> None:
    assert code.text[0].isupper() and not code.text.endswith(".")
    assert faults_of(CisRefused(code, "uowid must say which").text, ("uowid",)) == []


RAISED = {
    "BrokerError",
    "refuse",
    "detailed",
    "BadFrame",
    "BadBlock",
    "CisRefused",
    "Refusal",
    "RequestRefused",
    "LogonRefused",
    "Refused",
}
RAISED |= {
    "HTTPException",
    "refusal",
    "not_active",
    "StartRefused",
    "AccessRefused",
    "MoveFailed",
    "StandbyEnds",
    "UsersInvalid",
}


@pytest.mark.whole
def test_no_text_of_a_refusal_in_the_broker_has_words_of_others() -> None:
    """Of every refusal as it stands in the code: the rules that hold for texts, as far as they stand there."""
    count = 0
    for module in (REPOSITORY / "broker").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RAISED:
                for part in ast.walk(node):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value:
                        count += 1
                        found = [hit for pattern in FORBIDDEN if (hit := re.search(pattern, part.value))]
                        assert found == [], f"{module.name}: {part.value}"
    assert count >= 250
