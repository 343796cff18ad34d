"""What may be said together: a code of its own for every wrong combination, and never a crash."""

import inspect
import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oms_journal.broker import rules
from oms_journal.broker.block import FIELDS, Field, Function, Kind, Option, Request, Store, Way
from oms_journal.broker.codes import Code
from oms_journal.broker.rules import RULES, Refusal, check
from tests.support.sweeps import Share, for_each, in_two_sizes

F, O = Function, Option  # noqa: E741
CONV_IDS = ("", "NEW", "OLD", "ANY", "NONE", "1000000100000001")
WAITS = ("", "NO", "YES", "5S", "LATER")
SAID = {"user_id": "USER", "uowid": "1000000100000002", "publication_id": "1000000100000003", "error_code": "00030005"}


def said(function: Any, option: Any = O.NONE, **fields: Any) -> Request:
    return Request(function=function, option=option, **(SAID | fields))


def code(request: Request, *, is_server: bool = False, is_logged_on: bool = True) -> Code | None:
    refused = check(request, is_server=is_server, is_logged_on=is_logged_on)
    return None if refused is None else refused.code


def client(function: Any, option: Any = O.NONE, **fields: Any) -> Code | None:
    return code(said(function, option, **fields))


def server(function: Any, option: Any = O.NONE, **fields: Any) -> Code | None:
    return code(said(function, option, **fields), is_server=True)


# What is let through, for both roles.

WELCOME = """
SEND NONE NEW YES | SEND NONE NEW NO | SEND NONE NONE 5S | SEND NONE n YES | SEND SYNC NEW NO | SEND SYNC n NO
SEND COMMIT NEW NO | SEND COMMIT n NO | SEND EOC NEW NO | SEND EOC n NO | RECEIVE NONE n YES | RECEIVE MSG n NO
RECEIVE SYNC n 5S | RECEIVE ANY n YES
UNDO NONE n NO | UNDO LAST n NO | EOC NONE n NO | EOC CANCEL n NO | REGISTER NONE - NO | REGISTER ATTACH - NO
VERSION NONE - NO | KERNELVERS NONE - NO | KERNELVERS EXTENDED - NO | LOGON NONE - NO | LOGOFF NONE - NO
SYNCPOINT BACKOUT - NO | SYNCPOINT CANCEL - NO | SYNCPOINT COMMIT - NO | SYNCPOINT DELETE - NO | SYNCPOINT EOC - NO
SYNCPOINT EOCCANCEL - NO | SYNCPOINT LAST - NO | SYNCPOINT LAST n NO | SYNCPOINT QUERY n NO | SYNCPOINT SETUSTATUS - NO
SEND_PUBLICATION SYNC - NO | SEND_PUBLICATION COMMIT - NO | RECEIVE_PUBLICATION NONE - YES
RECEIVE_PUBLICATION SYNC - 5S | CONTROL_PUBLICATION BACKOUT - NO | CONTROL_PUBLICATION COMMIT - NO
CONTROL_PUBLICATION LAST - NO | CONTROL_PUBLICATION QUERY - NO | CONTROL_PUBLICATION SETUSTATUS - NO
SUBSCRIBE NONE - NO | SUBSCRIBE DURABLE - NO | UNSUBSCRIBE NONE - NO | UNSUBSCRIBE DURABLE - NO | REPLY_ERROR NONE n NO
"""
SERVERS_TOO = (
    "| RECEIVE SYNC NEW YES | RECEIVE SYNC OLD NO | RECEIVE SYNC ANY 5S | RECEIVE NONE NEW YES | RECEIVE MSG ANY NO"
)
ONLY_SERVERS = (
    SERVERS_TOO + "| RECEIVE ANY OLD NO | DEREGISTER NONE - NO | DEREGISTER QUIESCE - NO | DEREGISTER IMMED - NO"
)


def _calls(text: str) -> list[Request]:
    rows = [row.split() for row in re.split(r"[|\n]", text) if row.strip()]
    ids = {"-": "", "n": "1000000100000001"}
    return [
        said(Function[function], Option[option], conv_id=ids.get(conv_id, conv_id), wait=wait)
        for function, option, conv_id, wait in rows
    ]


@for_each("request_", _calls(WELCOME))
@for_each("is_server", [False, True])
def test_what_fits_is_let_through(request_: Request, is_server: bool) -> None:
    assert code(request_, is_server=is_server) is None


@pytest.mark.parametrize(
    "request_", _calls(ONLY_SERVERS), ids=lambda r: f"{r.function.name}-{r.option.name}-{r.conv_id}"
)
def test_what_only_a_server_may_is_refused_to_a_client(request_: Request) -> None:
    assert code(request_, is_server=True) is None
    assert code(request_, is_server=False) is not None


def test_every_rule_is_met_by_a_call_that_is_let_through() -> None:
    welcome = {(call.function, call.option) for call in _calls(WELCOME + ONLY_SERVERS)}

    assert welcome == set(RULES)


# What is not.


@pytest.mark.parametrize("function", [0, 3, 23, 99, F.SET, F.GET, F.LOCTRANS, F.SETSSLPARMS])
def test_an_unknown_function_is_refused(function: Any) -> None:
    assert client(function) is Code.INVALID_FUNCTION


def test_an_unknown_option_is_not_the_same_as_one_of_another_function() -> None:
    assert client(F.SEND, 23, conv_id="NEW") is Code.INVALID_OPTION
    assert client(F.SEND, O.QUIESCE, conv_id="NEW") is Code.FUNCTION_OPTION
    assert client(F.SYNCPOINT) is Code.FUNCTION_OPTION
    assert client(F.REGISTER, O.DURABLE) is Code.FUNCTION_OPTION


@pytest.mark.parametrize("version", [-1, 0, 14, 255])
def test_an_unknown_version_is_refused(version: int) -> None:
    assert client(F.VERSION, api_version=version) is Code.INVALID_VERSION


def test_another_type_of_interface_is_refused() -> None:
    assert client(F.VERSION, api_type=2) is Code.INVALID_VERSION


@pytest.mark.parametrize(
    ("function", "option", "version"),
    [
        (F.SYNCPOINT, O.LAST, 3),
        (F.SEND, O.SYNC, 3),
        (F.LOGON, O.NONE, 2),
        (F.KERNELVERS, O.NONE, 4),
        (F.SUBSCRIBE, O.NONE, 8),
    ],
)
def test_a_function_is_refused_to_a_version_that_does_not_know_it(
    function: Function, option: Option, version: int
) -> None:
    conv_id = "NEW" if function is F.SEND else ""

    assert client(function, option, conv_id=conv_id, api_version=version) is None
    assert client(function, option, conv_id=conv_id, api_version=version - 1) is Code.INVALID_VERSION


def test_a_client_receives_from_the_conversation_it_names() -> None:
    assert client(F.RECEIVE, O.SYNC, conv_id="ANY") is Code.RECEIVE_ANY_BY_CLIENT
    assert client(F.RECEIVE, O.SYNC, conv_id="NEW") is Code.RECEIVE_NEW_BY_CLIENT
    assert client(F.RECEIVE, O.SYNC, conv_id="OLD") is Code.FUNCTION_CONV_ID
    assert client(F.RECEIVE, O.SYNC) is Code.FUNCTION_CONV_ID


@pytest.mark.parametrize("function", [F.SEND, F.RECEIVE, F.UNDO, F.EOC, F.REPLY_ERROR])
def test_a_function_of_a_conversation_needs_one(function: Function) -> None:
    assert client(function) is Code.FUNCTION_CONV_ID
    assert server(function) is Code.FUNCTION_CONV_ID


@for_each("conv_id", ["NEW", "OLD", "ANY", "1000000100000001"])
@for_each("function", [F.LOGON, F.LOGOFF, F.REGISTER, F.SUBSCRIBE, F.VERSION])
def test_a_function_outside_of_conversations_takes_none(function: Function, conv_id: str) -> None:
    assert client(function, conv_id=conv_id) is Code.FUNCTION_CONV_ID


@pytest.mark.parametrize("option", [O.SYNC, O.COMMIT])
def test_a_unit_of_work_is_sent_in_a_conversation_and_without_waiting(option: Option) -> None:
    assert client(F.SEND, option, conv_id="NONE") is Code.OPTION_CONV_ID
    assert client(F.SEND, option, conv_id="NEW", wait="YES") is Code.OPTION_WAIT
    assert client(F.SEND, option, conv_id="NEW", wait="5S") is Code.OPTION_WAIT


def test_a_server_that_sends_may_name_no_pattern_and_no_other_words() -> None:
    assert server(F.SEND, conv_id="ANY") is Code.FUNCTION_CONV_ID
    assert server(F.SEND, conv_id="OLD") is Code.FUNCTION_CONV_ID


@pytest.mark.parametrize("wait", ["LATER", "0S", "-1", "1W"])
def test_a_wait_that_is_none_is_refused(wait: str) -> None:
    assert client(F.SEND, conv_id="NEW", wait=wait) is Code.INVALID_WAIT


@pytest.mark.parametrize("function", [F.LOGON, F.REGISTER, F.SYNCPOINT, F.SUBSCRIBE])
def test_what_never_waits_is_said_without_waiting(function: Function) -> None:
    option = O.COMMIT if function is F.SYNCPOINT else O.NONE

    assert client(function, option, wait="YES") is Code.FUNCTION_WAIT


def test_a_client_cannot_deregister() -> None:
    assert client(F.DEREGISTER, O.IMMED) is Code.DEREGISTER_BY_CLIENT
    assert server(F.DEREGISTER, O.IMMED) is None


def test_units_of_work_and_topics_take_a_logon_and_everything_a_user() -> None:
    """EntireX, Using Persistence and Units of Work: an explicit LOGON before any of the functions."""
    calls = [
        *(said(F.SEND, option, conv_id="NEW") for option in (O.SYNC, O.COMMIT)),
        *(said(F.RECEIVE, option, conv_id="1000000100000001") for option in (O.SYNC, O.ANY)),
        *(said(F.SYNCPOINT, option) for option in (O.COMMIT, O.LAST, O.QUERY)),
        said(F.SUBSCRIBE),
        said(F.SEND_PUBLICATION, O.COMMIT),
    ]
    for call in calls:
        assert code(call, is_logged_on=False) is Code.LOGON_REQUIRED
        assert code(replace(call, user_id="")) is Code.INVALID_USER_ID
    assert code(said(F.SEND, conv_id="NEW"), is_logged_on=False) is None
    assert code(said(F.VERSION, user_id=""), is_logged_on=False) is None


@pytest.mark.parametrize("option", [option for function, option in RULES if function is F.SYNCPOINT])
def test_a_syncpoint_says_of_which_unit_of_work(option: Option) -> None:
    """EntireX, Using Persistence and Units of Work: UOWID=BOTH is a case of COMMIT."""
    assert client(F.SYNCPOINT, option, uowid="") is (None if option is O.LAST else Code.UOWID_REQUIRED)
    both = client(F.SYNCPOINT, option, uowid="BOTH")
    assert both is (None if option in (O.LAST, O.COMMIT) else Code.UOWID_REQUIRED)


def test_a_publication_is_new_or_named() -> None:
    assert client(F.SEND_PUBLICATION, O.COMMIT, publication_id="NEW") is None
    assert client(F.SEND_PUBLICATION, O.COMMIT, publication_id="ANY") is Code.OPTION_CONV_ID
    assert client(F.CONTROL_PUBLICATION, O.COMMIT, publication_id="NEW") is Code.OPTION_CONV_ID
    assert client(F.CONTROL_PUBLICATION, O.LAST, publication_id="") is None


def test_an_error_that_is_replied_is_a_code() -> None:
    conversation = {"conv_id": "1000000100000001"}

    assert server(F.REPLY_ERROR, **conversation) is None
    assert server(F.REPLY_ERROR, **conversation, error_code="") is Code.ERROR_CODE_MISSING
    for text in ("12", "0003000X", "00000000", "000300051"):
        assert server(F.REPLY_ERROR, **conversation, error_code=text) is Code.ERROR_CODE_INVALID


# Fields.

CHARACTERS = [f for f in FIELDS.values() if f.kind is Kind.CHARACTERS and f.way is not Way.OUT and f.attribute]
OWN_CODES = {
    **dict.fromkeys(("SERVER-CLASS", "SERVER-NAME", "SERVICE"), Code.INVALID_SERVICE_NAME),
    **{"USER-ID": Code.INVALID_USER_ID, "BROKER-ID": Code.INVALID_BROKER_ID, "WAIT": Code.INVALID_WAIT},
}


@pytest.mark.parametrize("field", CHARACTERS, ids=lambda field: field.name)
def test_a_field_that_is_too_long_is_refused(field: Field) -> None:
    for text in ("X" * (field.width + 1), "é" * (field.width // 2 + 1)):
        call = said(F.SEND, conv_id="NEW")
        setattr(call, field.attribute, text)

        assert code(call) is OWN_CODES.get(field.name, Code.OUT_OF_RANGE)


@for_each("field", CHARACTERS)
@for_each("text", ["\0", "A\n", "\x7f", "\ud800"])
def test_a_field_that_cannot_be_printed_is_refused(field: Field, text: str) -> None:
    call = said(F.SEND, conv_id="NEW")
    setattr(call, field.attribute, text)

    assert code(call) is OWN_CODES.get(field.name, Code.INVALID_CHARACTER)


def test_a_name_as_long_as_its_field_is_welcome() -> None:
    assert client(F.SEND, conv_id="NEW", server_class="X" * 32, user_id="é" * 16) is None


def test_a_pattern_names_services_only_for_their_end() -> None:
    assert client(F.SEND, conv_id="NEW", service="A*") is Code.PATTERN_IN_NAME
    assert server(F.DEREGISTER, server_class="*") is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"uwtime": "SOON"}, Code.INVALID_NUMBER),
        ({"uwtime": "0S"}, Code.OUT_OF_RANGE),
        ({"uwstat_lifetime": "1W"}, Code.INVALID_NUMBER),
        ({"uwstatp": 256}, Code.OUT_OF_RANGE),
        ({"uwstatp": -1}, Code.OUT_OF_RANGE),
        ({"store": 3}, Code.INVALID_STORE),
        ({"receive_length": -1}, Code.INVALID_RECEIVE_LENGTH),
        ({"msgid": bytes(33)}, Code.OUT_OF_RANGE),
        ({"user_data": bytes(17)}, Code.OUT_OF_RANGE),
        ({"producer": "x" * 256}, Code.OUT_OF_RANGE),
        ({"producer": "\ud800"}, Code.INVALID_CHARACTER),
        ({"properties": {"k": "\ud800"}}, Code.INVALID_CHARACTER),
        ({"properties": {"k": 1}}, Code.INVALID_CHARACTER),
        ({"producer": 7}, Code.INVALID_CHARACTER),
        ({"properties": {"k": "v" * (60 << 10)}}, Code.LENGTH_EXCEEDED),
    ],
)
def test_a_value_out_of_its_range_is_refused(fields: dict[str, Any], expected: Code) -> None:
    assert client(F.SEND, O.COMMIT, conv_id="NEW", **fields) is expected


@pytest.mark.parametrize(
    "fields", [{"uwstatp": 255}, {"store": Store.OFF}, {"uwtime": "1D"}, {"properties": {"": ""}}, {"msgid": bytes(32)}]
)
def test_a_value_at_the_end_of_its_range_is_welcome(fields: dict[str, Any]) -> None:
    assert client(F.SEND, O.COMMIT, conv_id="NEW", **fields) is None


# The whole square.


@in_two_sizes
@for_each("function", range(24))
def test_every_combination_is_answered(function: int, share: Share) -> None:
    for option, conv_id, wait, is_server in share.every(14, product(range(24), CONV_IDS, WAITS, (False, True))):
        call = said(function, option, conv_id=conv_id, wait=wait)
        for is_logged_on in (False, True):
            refused = check(call, is_server=is_server, is_logged_on=is_logged_on)
            assert refused is None or (isinstance(refused, Refusal) and refused.code is not Code.OK)
        if refused is None:
            rule = RULES[Function(function), Option(option)]
            assert rule.may_wait or wait in ("", "NO")


@given(st.data())
def test_whatever_the_fields_hold_the_answer_is_a_code_or_none(data: st.DataObject) -> None:
    call = said(data.draw(st.sampled_from(list(F))), data.draw(st.sampled_from(list(O))))
    for field in CHARACTERS:
        if data.draw(st.booleans()):
            setattr(call, field.attribute, data.draw(st.text(max_size=100)))

    refused = check(call, is_server=data.draw(st.booleans()), is_logged_on=True)

    assert refused is None or refused.code in Code


@given(st.data())
def test_what_is_remembered_of_one_call_is_true_of_another(data: st.DataObject) -> None:
    texts = st.sampled_from(["", "NEW", "new", "Both", "x" * 16, "x" * 17, "x" * 33, "\n", "é", "*"])
    call = said(data.draw(st.sampled_from([F.SEND, F.RECEIVE, F.SYNCPOINT])), data.draw(st.sampled_from(list(O))))
    for name in ("conv_id", "uowid", "publication_id", "ustatus", "user_id", "service", "producer"):
        setattr(call, name, data.draw(texts))
    is_server, is_logged_on = data.draw(st.booleans()), data.draw(st.booleans())

    found = check(call, is_server=is_server, is_logged_on=is_logged_on)

    assert found == rules._first_wrong(call, is_server=is_server, is_logged_on=is_logged_on)


def test_the_codes_of_the_table_in_the_docstring_are_those_of_the_module() -> None:
    document = inspect.getdoc(rules) or ""
    source = inspect.getsource(rules)

    assert set(re.findall(r"\b00\d{6}\b", document)) == {
        Code[name].value for name in re.findall(r"Code\.([A-Z_]+)", source) if name != "OK"
    }
