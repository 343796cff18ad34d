"""Builds the site of the documents: python -m tests.docs.site

The pages are Markdown that also reads as it lies on a code host. The site has one thing more: the reference of the
public names, made from their docstrings. A page or a heading that a link does not find ends the build.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import oms_journal
from oms_journal.analysis import questions
from tests.support.project import REPOSITORY

DOCS = REPOSITORY / "docs"
BUILT = REPOSITORY / "build" / "site"
API = "reference/api.md"


def build(target: Path = BUILT) -> Path:
    """Build the site below the target, and return the folder of its pages; CalledProcessError."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target / "docs")
    config = (target / "docs" / "zensical.toml").rename(target / "zensical.toml")
    config.write_text(
        config.read_text(encoding="utf-8").replace("../../src", str(REPOSITORY / "src")), encoding="utf-8"
    )
    (target / "docs" / API).write_text(reference(), encoding="utf-8")
    program = Path(sys.executable).with_name("zensical")
    variables = os.environ | {"NO_COLOR": "1"}
    subprocess.run([program, "build", "--strict", "--config-file", config], check=True, cwd=target, env=variables)
    return target / "html"


def reference() -> str:
    """Return the page of the public names: each with its signature and docstring."""
    names = [f"oms_journal.{name}" for name in oms_journal.__all__]
    names += [f"oms_journal.analysis.questions.{name}" for name in questions.__all__]
    return "\n\n".join(["# Public names", *(f"::: {name}" for name in names)]) + "\n"


def main() -> None:
    try:
        sys.stdout.write(f"the site is {build() / 'index.html'}\n")
    except subprocess.CalledProcessError as failure:
        sys.exit(failure.returncode)


if __name__ == "__main__":
    main()
