"""Every example of the documents runs, and prints what its page shows; run again in the same folder, it does so too.

Each day the README runs. The whole has each page once, and twice what is read to look something up, which is short.
The page that starts Spark eight times takes minutes of a processor: it is left to the campaigns, as is the second run
of the guides.
"""

import re
from pathlib import Path

import pytest

from tests.docs import examples
from tests.docs.examples import Differs, blocks, pages, play
from tests.support.project import REPOSITORY
from tests.support.sweeps import split

PLAYED = [page for page in pages() if any(block.why_not_run is None for block in blocks(page))]
README = REPOSITORY / "README.md"
LONG = REPOSITORY / "docs" / "how-to" / "journals-on-spark.md"
GUIDES = [page for page in PLAYED if page.parent.name in ("tutorial", "how-to")]
assert LONG in GUIDES and README in PLAYED


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", split([README], [page for page in GUIDES if page != LONG]), ids=name_of)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    play(page, tmp_path, times=1)


@pytest.mark.whole
@pytest.mark.parametrize("page", split([page for page in PLAYED if page not in GUIDES], GUIDES), ids=name_of)
def test_the_examples_of_a_page_run_twice(page: Path, tmp_path: Path) -> None:
    play(page, tmp_path)


def test_a_block_that_does_not_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    examples.main()

    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == sum(block.why_not_run is not None for page in pages() for block in blocks(page))
    for line in listed:
        assert len(line.split(": ", 1)[1].split()) >= 3, f"{line}: say why, in words"


PAGE = """# A page

```python
from pathlib import Path

print("written" if Path("here").exists() else "new")
Path("here").touch()
```

```text
{shown}
```

```console
$ echo 1; echo 2
1
...
$ cat > there <<END
> said
> END
$ cat there
said
```
"""


def page_in(directory: Path, text: str) -> Path:
    path = directory / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_page_that_says_what_is_printed_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "REPOSITORY", tmp_path)

    play(page_in(tmp_path, PAGE.format(shown="...")), tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PAGE.format(shown="new"), "the page shows"),  # true of the first run alone
        ("```python\nraise SystemExit(3)\n```\n", "ended with 3"),
        ("```console\n$ false\n```\n", "ended with 1"),
        ("```console\n$ echo no\nyes\n```\n", "printed\n\nno"),
        ("```console\necho\n```\n", "behind `$ `"),
        ("<!-- beside -->\n\n```console\n$ echo ready\nlistening\n```\n", "ready"),
    ],
)
def test_a_page_that_says_something_else_fails(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examples, "REPOSITORY", tmp_path)

    with pytest.raises(Differs, match=re.escape(told)):
        play(page_in(tmp_path, text), tmp_path)


@pytest.mark.whole
def test_a_server_runs_beside_what_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "REPOSITORY", tmp_path)
    text = """
<!-- beside -->

```console
$ oms serve --spool store
...
listening for STOMP 127.0.0.1:61613
listening for HTTP 127.0.0.1:1971
...
```

```console
$ curl -s http://127.0.0.1:1971/healthz
...
```
"""

    play(page_in(tmp_path, text), tmp_path)
