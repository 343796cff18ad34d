"""A script as text: one step a line, as Python writes it, and read back without running any of it.

    # world: engine
    # found at seed 4711: what was acknowledged is there, whole
    Add(queue='a', size=30)
    PowerCut(seed=3)

A line is one call of a step's class with literals, or with other values of the world, as arguments. Only the
frozen dataclasses that the world's own modules define can be called; anything else is refused with its line.
"""

import ast
import dataclasses
import sys
from collections.abc import Callable, Iterable

from tests.simulation.world import Script, Step, World

_WORLD = "# world: "


class NotAScript(ValueError):
    """The text is no script of this world; says which line, and why."""


def text_of(world: World, script: Iterable[Step], notes: Iterable[str] = ()) -> str:
    """Return the script as text, with notes above it, one comment a line."""
    comments = [f"# {line}" for note in notes for line in note.splitlines()]
    return "\n".join([f"{_WORLD}{world.name}", *comments, *map(repr, script)]) + "\n"


def world_of(text: str) -> str:
    """Return the name of the world that the text says it was written for."""
    first = text.partition("\n")[0]
    if not first.startswith(_WORLD):
        raise NotAScript(f"line 1: it does not begin with {_WORLD!r} and a name")
    return first.removeprefix(_WORLD).strip()


def parsed(world: World, text: str) -> Script:
    """Return the script that the text is."""
    makers = step_makers(world)
    steps: list[Step] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            tree = ast.parse(line.strip(), mode="eval").body
        except SyntaxError as failure:
            raise NotAScript(f"line {number}: {failure.msg}") from None
        if not isinstance(tree, ast.Call):
            raise NotAScript(f"line {number}: a step is a call: Name(argument=value, ...)")
        try:
            steps.append(_value(tree, makers))
        except (TypeError, ValueError) as failure:
            raise NotAScript(f"line {number}: {failure}") from None
    return steps


def step_makers(world: World) -> dict[str, Callable[..., Step]]:
    """Return the frozen dataclasses of the world's module, and of the folder that it is the `world` of."""
    home = type(world).__module__.removesuffix(".world")
    makers: dict[str, Callable[..., Step]] = {}
    for name, module in list(sys.modules.items()):
        if name == home or name.startswith(f"{home}."):
            kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and _is_frozen_dataclass(kind)]
            makers |= {kind.__name__: kind for kind in kinds}
    return makers


def _is_frozen_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) and bool(vars(kind).get("__hash__"))  # one that is not frozen has none


def _value(tree: ast.expr, makers: dict[str, Callable[..., Step]]) -> Step:
    match tree:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            if name not in makers:
                raise NotAScript(f"{name} is no step of this world")
            named = {}
            for keyword in keywords:
                if keyword.arg is None:
                    raise NotAScript("arguments are written out")
                named[keyword.arg] = _value(keyword.value, makers)
            return makers[name](*(_value(argument, makers) for argument in args), **named)
        case ast.Tuple(elts=parts):
            return tuple(_value(part, makers) for part in parts)
        case ast.List(elts=parts):
            return [_value(part, makers) for part in parts]
        case _:
            return ast.literal_eval(tree)  # type: ignore[no-any-return]  # ValueError for all but literals
