"""Calls of a broker in asyncio whose answers go to a function: in order, later, and nothing of them is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import Function, Option, Request
from oms_journal.broker.codes import Code
from oms_journal.broker.embedded.async_broker import AsyncBroker

WHERE: dict[str, Any] = {"server_class": "QUEUE", "server_name": "A", "service": "-"}


def said(function: Function, option: Option = Option.NONE, **fields: Any) -> Request:
    return Request(function=function, option=option, user_id="ALICE", **fields)


class Heard:
    """What was told, and a way to wait for it."""

    def __init__(self, broker: AsyncBroker) -> None:
        self.answers: list[Answered] = []
        self.broker = broker
        self.caller = broker.new_caller()
        self._news = asyncio.Event()

    def ask(self, request: Request) -> Any:
        return self.broker._ask(request, caller=self.caller, then=self.take)

    def take(self, answered: Answered) -> None:
        self.answers.append(answered)
        self._news.set()

    async def wait(self, count: int) -> list[Answered]:
        while len(self.answers) < count:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 20)
        return self.answers


def played(tmp_path: Path, script: Callable[[Heard], Awaitable[None]]) -> None:
    async def play() -> None:
        async with AsyncBroker.open(tmp_path) as broker:
            heard = Heard(broker)
            heard.ask(said(Function.LOGON))
            assert heard.answers == [], "nobody is told at once"
            await heard.wait(1)
            heard.answers.clear()
            await script(heard)

    asyncio.run(play())


def sending(number: int) -> Request:
    return said(Function.SEND, Option.EOC, conv_id="NEW", body=b"%d" % number, **WHERE)


def test_calls_are_answered_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    async def script(heard: Heard) -> None:
        for number in range(100):
            heard.ask(sending(number))
        answers = await heard.wait(100)
        uowids = [answer.reply.uowid for answer in answers]
        assert uowids == sorted(uowids)
        assert {answer.reply.code for answer in answers} == {Code.OK}

    played(tmp_path, script)


def test_a_call_that_waits_is_told_when_there_is_something(tmp_path: Path) -> None:
    async def script(heard: Heard) -> None:
        heard.ask(said(Function.REGISTER, **WHERE))
        heard.ask(said(Function.RECEIVE, Option.SYNC, conv_id="ANY", wait="YES", **WHERE))
        await heard.wait(1)
        heard.ask(sending(7))
        answers = await heard.wait(3)
        assert [answer.body for answer in answers if answer.body] == [b"7"]

    played(tmp_path, script)


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_call_that_was_taken_back_is_told_nothing_and_loses_nothing(tmp_path: Path, is_answered: bool) -> None:
    async def script(heard: Heard) -> None:
        heard.ask(said(Function.REGISTER, **WHERE))
        await heard.wait(1)
        if is_answered:
            heard.ask(sending(7))
            await heard.wait(2)
        asked = heard.ask(said(Function.RECEIVE, Option.SYNC, conv_id="ANY", wait="YES", **WHERE))
        asked.cancel()
        asked.cancel()
        if not is_answered:
            heard.ask(sending(7))
            await heard.wait(2)
        heard.ask(said(Function.RECEIVE, Option.SYNC, conv_id="ANY", wait="YES", **WHERE))
        *_, last = await heard.wait(3)
        assert (last.body, last.reply.adcount) == (b"7", 0)

    played(tmp_path, script)


def test_what_only_the_store_has_is_read(tmp_path: Path) -> None:
    async def before(heard: Heard) -> None:
        heard.ask(sending(7))
        await heard.wait(1)

    async def behind(heard: Heard) -> None:
        heard.ask(said(Function.REGISTER, **WHERE))
        heard.ask(said(Function.RECEIVE, Option.SYNC, conv_id="ANY", **WHERE))
        assert (await heard.wait(2))[1].body == b"7"

    played(tmp_path, before)
    played(tmp_path, behind)


def test_after_the_end_every_call_is_refused(tmp_path: Path) -> None:
    async def script(heard: Heard) -> None:
        heard.ask(said(Function.REGISTER, **WHERE))
        heard.ask(said(Function.RECEIVE, Option.SYNC, conv_id="ANY", wait="YES", **WHERE))
        await heard.wait(1)
        await heard.broker.close()
        heard.ask(sending(7))
        answers = await heard.wait(3)
        assert [answer.reply.code for answer in answers] == [Code.OK, Code.NOT_ACTIVE, Code.NOT_ACTIVE]

    played(tmp_path, script)
