"""An attribute file that says every attribute with the value that counts without it: something to begin with."""

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.attributes.keywords import NAMES, NOT_CARRIED_OUT, OF_SECTION

_HEAD = """\
* Every attribute of a broker, with the value that counts where nothing is said.
* A line that begins with * or # is a comment. `oms attributes FILE` checks a file.
"""


def example_of(attributes: Attributes) -> str:
    """Return the text of a file with these attributes; those without a value, or an effect, are comments."""
    lines = [_HEAD]
    section = ""
    for shown in attributes.effective_values():
        if shown.section != section:
            section = shown.section
            lines.append(f"DEFAULTS={section}")
            if shown.definition:
                names = zip(NAMES[section], shown.definition.split("/"), strict=True)
                lines.append(" " + "".join(f" {name}={value}" for name, value in names))
        if section in NAMES and shown.keyword in OF_SECTION["BROKER"]:
            continue  # it is BROKER's, unless a definition says otherwise
        is_comment = not shown.value or shown.keyword in NOT_CARRIED_OUT
        lines.append(f"{'* ' if is_comment else ' '} {shown.keyword}={_quoted(shown.value)}")
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value or "," in value else value
