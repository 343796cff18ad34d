"""HTML that no name can break out of: text is escaped unless it was made here.

Names come from whoever writes into the journal: quotes, tags, line breaks and marks that turn the
direction of writing round may all be in them. They are shown as what they are, and do nothing.
"""

import base64
import hashlib
import html
import json
import re
from typing import Any

VOID = frozenset({"meta"})
_UNIT = re.compile(r"(?<=\d) (?=(?:%|µs|ms|s|min|h|d|B|[KMGTP]iB)(?!\w))")  # the blank before it
NAME_SHOWN = 48  # characters of a name on the page; a pointer shows the rest


class Html(str):
    """Markup that was made here, in contrast to text."""

    __slots__ = ()


def visible(value: str) -> str:
    """Return the text with every character escaped that is not seen: controls, line breaks, direction marks."""
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in value)


def escaped(value: str) -> Html:
    """Return text as markup that shows it."""
    return Html(html.escape(visible(value)))


def unbroken(value: str) -> Html:
    """Return text as markup in which no line ends between a number and its unit."""
    return Html(_UNIT.sub("&nbsp;", escaped(value)))


def tag(kind: str, /, *children: str, **attributes: object) -> Html:
    """Return an element; what is not markup among its children is escaped.

    In an attribute's name `_` stands for `-`, and one at the end is dropped. The values None and False leave an
    attribute out, True gives it without a value.
    """
    opening = kind + "".join(_attribute(key, value) for key, value in attributes.items())
    content = joined(*children)
    return Html(f"<{opening}>" if kind in VOID else f"<{opening}>{content}</{kind}>")


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    key = key.removesuffix("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{escaped(str(value))}"'


def joined(*parts: str) -> Html:
    """Return the parts one behind the other; what is not markup is escaped."""
    return Html("".join(part if isinstance(part, Html) else escaped(part) for part in parts))


def name(value: str | None) -> Html:
    """Return a name as people gave it, kept from turning round what stands beside it."""
    whole = visible(value) if value else "—"
    return tag("bdi", shortened(whole), class_="name", translate="no", title=whole if len(whole) > NAME_SHOWN else None)


def shortened(value: str) -> str:
    """Return the beginning and the end of a text that is long."""
    if len(value) <= NAME_SHOWN:
        return value
    return f"{value[: NAME_SHOWN * 2 // 3]}…{value[-NAME_SHOWN // 3 + 1 :]}"


def data(document: Any) -> Html:
    """Return a document for the page's script to read; its texts are made visible before, by whoever puts them in."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for dangerous in "<>&":
        text = text.replace(dangerous, f"\\u{ord(dangerous):04x}")
    return Html(f'<script type="application/json">{text}</script>')


def script_with_hash(source: str) -> tuple[Html, str]:
    """Return a script as an element, and the expression by which a content security policy allows it alone."""
    assert "</" not in source, "it would end the element"
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return Html(f"<script>{source}</script>"), f"'sha256-{digest}'"
