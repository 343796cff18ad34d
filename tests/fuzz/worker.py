"""Plays one target for a while with inputs that its own coverage leads to: `python -m tests.fuzz.worker TARGET …`.

Atheris does it, libFuzzer behind it: what a process of it has found it says when it ends, and a failure ends it.
"""

import sys
from importlib import import_module
from pathlib import Path

import atheris

MEGABYTES_MAX = 2048  # of the whole process
SECONDS_MAX = 10  # of one input


def main(name: str, *arguments: str) -> None:
    """Play the target; the arguments are libFuzzer's. Does not return."""
    with atheris.instrument_imports(include=["oms_journal"]):
        place = import_module(f"tests.fuzz.{_module_of(name)}")
        function = getattr(place, name.replace("-", "_"))
        function(b"")  # what is imported with the first play is instrumented too, and its time is not the input's
    from tests.fuzz.target import bounded_memory

    bounds = [f"-timeout={SECONDS_MAX}", f"-rss_limit_mb={MEGABYTES_MAX}", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *bounds, *arguments], function)
    with bounded_memory(MEGABYTES_MAX << 20):
        atheris.Fuzz()


def _module_of(name: str) -> str:
    """Return which module has the target. To import all of them takes longer than many a play."""
    line = f"\ndef {name.replace('-', '_')}(data: bytes)"
    return next(path.stem for path in Path(__file__).parent.glob("*_targets.py") if line in path.read_text("utf-8"))


if __name__ == "__main__":
    main(*sys.argv[1:])
