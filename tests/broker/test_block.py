"""The control block: its fields, numbers and widths."""

from dataclasses import replace

import pytest

from oms_journal.broker import block
from oms_journal.broker.block import (
    FIELDS,
    ConvStat,
    Field,
    Function,
    Kind,
    Option,
    Reception,
    Reply,
    Request,
    Store,
    Way,
)
from oms_journal.broker.records import Status
from tests.support.sweeps import for_each

FUNCTIONS = {
    **{"SEND": 1, "RECEIVE": 2, "UNDO": 4, "EOC": 5, "REGISTER": 6, "DEREGISTER": 7, "VERSION": 8, "LOGON": 9},
    **{"LOGOFF": 10, "SET": 11, "GET": 12, "SYNCPOINT": 13, "KERNELVERS": 14, "LOCTRANS": 15, "SETSSLPARMS": 16},
    **{"SEND_PUBLICATION": 17, "RECEIVE_PUBLICATION": 18, "SUBSCRIBE": 19, "UNSUBSCRIBE": 20},
    **{"CONTROL_PUBLICATION": 21, "REPLY_ERROR": 22},
}
OPTIONS = """
NONE MSG HOLD IMMED QUIESCE EOC CANCEL LAST NEXT PREVIEW COMMIT BACKOUT SYNC ATTACH DELETE EOCCANCEL QUERY SETUSTATUS
ANY TERMINATE DURABLE CHECKSERVICE EXTENDED
"""
WIDTHS = {
    **{"API-TYPE": 1, "API-VERSION": 1, "FUNCTION": 1, "OPTION": 1, "SEND-LENGTH": 4, "RECEIVE-LENGTH": 4},
    **{"RETURN-LENGTH": 4, "ERRTEXT-LENGTH": 4, "BROKER-ID": 32, "SERVER-CLASS": 32, "SERVER-NAME": 32},
    **{"SERVICE": 32, "USER-ID": 32, "PASSWORD": 32, "TOKEN": 32, "SECURITY-TOKEN": 32, "CONV-ID": 16, "WAIT": 8},
    **{"ERROR-CODE": 8, "ADCOUNT": 4, "USER-DATA": 16, "MSGID": 32, "MSGTYPE": 16, "CLIENT-UID": 32},
    **{"CONV-STAT": 1, "STORE": 1, "STATUS": 1, "UOWSTATUS": 1, "UWTIME": 8, "UOWID": 16, "USTATUS": 32},
    **{"UWSTATP": 1, "COMMITTIME": 17, "TOPIC": 96, "PUBLICATION-ID": 16, "CLIENT-ID": 4, "PARTNER-BROKER-ID": 32},
    **{"UWSTAT-LIFETIME": 8, "FORCE-LOGON": 1, "ENCRYPTION-LEVEL": 1, "KERNEL-SECURITY": 1, "COMPRESS": 1},
    **{"LOCALE": 40, "DATA-ARCH": 1},
}


def test_functions_and_options_have_the_numbers_of_the_interface() -> None:
    assert {function.name: function.value for function in Function} == FUNCTIONS
    assert {option.name: option.value for option in Option} == {
        name: number for number, name in enumerate(OPTIONS.split())
    }


def test_every_field_has_the_width_of_the_interface() -> None:
    assert {name: field.width for name, field in FIELDS.items()} == WIDTHS


def test_what_a_unit_of_work_needs_came_with_version_3_and_topics_with_version_8() -> None:
    """EntireX, Using Persistence and Units of Work: fields added to the control block."""
    came_with = {version: {name for name, field in FIELDS.items() if field.api == version} for version in (3, 8)}

    assert came_with[3] == {"UWTIME", "UOWID", "USTATUS", "UWSTATP", "UOWSTATUS"}
    assert came_with[8] == {"TOPIC", "PUBLICATION-ID", "UWSTAT-LIFETIME"}
    assert FIELDS["PARTNER-BROKER-ID"].api == 9
    assert FIELDS["STORE"].way is Way.BOTH


@for_each("field", [field for field in FIELDS.values() if field.attribute])
def test_a_field_is_where_it_is_said_or_answered(field: Field) -> None:
    request, reply = Request(function=Function.SEND), Reply()

    assert hasattr(request, field.attribute) == (field.way in (Way.IN, Way.BOTH))
    assert hasattr(reply, field.attribute) == (field.way in (Way.OUT, Way.BOTH))
    if field.kind is Kind.CHARACTERS and field.name != "ERROR-CODE":
        assert getattr(reply if field.way is Way.OUT else request, field.attribute) == ""


def test_a_status_and_what_a_receive_answers_share_one_field() -> None:
    numbers = [*(status.value for status in Status), *(reception.value for reception in Reception)]

    assert len(set(numbers)) == len(numbers)
    assert [reception.value for reception in Reception] == [0, 9, 10, 11, 12]
    assert [status.value for status in Status][:8] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_nothing_said_is_0_or_blank() -> None:
    assert (Store.UNSAID, Store.OFF, Store.BROKER) == (0, 1, 2)
    assert (ConvStat.NEW, ConvStat.OLD, ConvStat.NONE) == (1, 2, 3)
    assert (block.UWSTATP_DEFAULT, block.UWSTATP_MAX, block.UWSTATP_NO) == (0, 254, 255)
    assert Reply().code.value == "00000000"


def test_a_request_knows_its_fields_and_is_equal_whatever_of_it_was_said() -> None:
    request = Request(function=Function.SEND, option=Option.COMMIT, conv_id="NEW", body=b"x")
    assert request == Request(function=Function.SEND, option=Option.COMMIT, conv_id="NEW", body=b"x", token="")
    assert repr(replace(request, body=b"y")) == repr(replace(request, body=b"y", token=""))
    assert Request(function=Function.LOGON).option is Option.NONE
    with pytest.raises(TypeError, match="conversation"):
        Request(function=Function.SEND, conversation="NEW")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="function"):
        Request(body=b"x")  # type: ignore[call-arg]
    assert Reply.blank() == Reply()
