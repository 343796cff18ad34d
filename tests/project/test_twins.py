"""The classes for threads and for asyncio say the same: without `async`, `await` and `Async` they are one text."""

import ast
import inspect
import re
from pathlib import Path
from typing import cast

import pytest

import oms_journal
from oms_journal.broker.client.brokers import AsyncRemoteBroker, RemoteBroker
from oms_journal.broker.sessions import async_parts, async_sessions, session_parts, sessions

SPELLED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "StopAsyncIteration": "StopIteration",
    "async_parts": "session_parts",
    "async_sessions": "sessions",
}
PAIRS = [
    (oms_journal.MessageDatabase, oms_journal.AsyncMessageDatabase),
    (oms_journal.Broker, oms_journal.AsyncBroker),
    (RemoteBroker, AsyncRemoteBroker),
]
# What those for asyncio have alone, or otherwise than threads, and why.
ALONE = {
    "AsyncMessageDatabase": {
        "wrap",  # one that is open already, for the tasks of a loop
        "recovery",  # an attribute of every MessageDatabase
        "commit",  # its block is awaited
        "keys",  # a list: read off the loop as a whole
        "held",
    },
    "AsyncBroker": {
        "gone",  # it says besides whether its messages count as tried: connections are the server's
    },
}


def said(name: str) -> str:
    """Return a name as threads have it."""
    return SPELLED.get(name, re.sub(r"\bAsync(?=[A-Z])", "", name))


class Awaited(ast.NodeTransformer):
    """Takes `async`, `await`, `Async` and the docstrings away."""

    def visit_Await(self, node: ast.Await) -> ast.AST:
        return cast(ast.AST, self.visit(node.value))

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._as(ast.FunctionDef, node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        return self._as(ast.For, node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        return self._as(ast.With, node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.is_async = 0
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(said(node.value)) if isinstance(node.value, str) else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(said(node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = said(node.attr)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = said(node.name)
        return self._without_docstring(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = said(node.name)
        return self._without_docstring(node)

    def _as(self, kind: type[ast.stmt], node: ast.stmt) -> ast.AST:
        return cast(ast.AST, self.visit(kind(**dict(ast.iter_fields(node)))))

    def _without_docstring(self, node: ast.ClassDef | ast.FunctionDef) -> ast.AST:
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)


def definitions(module: object) -> dict[str, list[str]]:
    """Return the lines of each class and function of a module, as threads would have them."""
    tree = ast.parse(Path(inspect.getsourcefile(module) or "").read_text(encoding="utf-8"))  # type: ignore[arg-type]
    found = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    return {
        said(node.name): ast.unparse(ast.fix_missing_locations(Awaited().visit(node))).splitlines() for node in found
    }


@pytest.mark.parametrize(
    ("threads", "tasks"), [(sessions, async_sessions), (session_parts, async_parts)], ids=["sessions", "parts"]
)
def test_sessions_are_one_text_but_for_async_and_await(threads: object, tasks: object) -> None:
    ours, theirs = definitions(threads), definitions(tasks)

    assert list(ours) == list(theirs)
    for name, lines in ours.items():
        assert lines == theirs[name], name


@pytest.mark.parametrize(("threads", "tasks"), PAIRS, ids=[kind.__name__ for kind, _ in PAIRS])
def test_both_of_a_pair_have_the_same_verbs_with_the_same_arguments(threads: type, tasks: type) -> None:
    ours, theirs = verbs(threads), verbs(tasks)

    assert set(theirs.items()) - set(ours.items()) == {(name, theirs[name]) for name in ALONE.get(tasks.__name__, ())}
    assert set(ours) <= set(theirs)


def verbs(kind: type) -> dict[str, str]:
    """Return the public methods and properties of a class, with their signatures as threads would have them."""
    found = {}
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            found[name] = "property"
        elif callable(getattr(value, "__func__", value)):
            found[name] = said_of(str(inspect.signature(getattr(kind, name))))
    return found


def said_of(signature: str) -> str:
    plain = re.sub(r"collections\.abc\.(?:Awaitable\[|Coroutine\[typing\.Any, typing\.Any, )(.*)\]", r"\1", signature)
    return re.sub(r"oms_journal(\.\w+)*\.", "", re.sub(r"(?:\b|(?<=Abstract))Async(?=[A-Z])", "", plain))
