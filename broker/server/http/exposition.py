"""The text format of Prometheus: families of samples, each with its help and type. Pure.

Names are `oms_…` in base units, counters end in `_total`, as that field has it. (Prometheus, "Exposition formats" and
"Metric and label naming".)
"""

from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]
_NONE: Labels = {}


class Exposition:
    """A page of metrics, as it grows."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def gauge(self, name: str, says: str, value: float | None, labels: Labels = _NONE) -> None:
        """Add a family of one sample; nothing where there is no value."""
        if value is not None:
            self.gauges(name, says, [(labels, value)])

    def gauges(self, name: str, says: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._family(name, "gauge", says, samples)

    def counter(self, name: str, says: str, value: float) -> None:
        """Add a counter; its name ends in `_total`."""
        self.counters(name, says, [(_NONE, value)])

    def counters(self, name: str, says: str, samples: Iterable[tuple[Labels, float]]) -> None:
        assert name.endswith("_total"), "counters are named so"
        self._family(name, "counter", says, samples)

    def histogram(self, name: str, says: str, counts: Iterable[tuple[float, int]], total: tuple[int, float]) -> None:
        """Add a histogram of counts up to each bound, all of them cumulative, and the count and sum of everything."""
        count, seconds = total
        self._head(name, "histogram", says)
        for bound, below in counts:
            self._sample(f"{name}_bucket", {"le": _number(bound)}, below)
        self._sample(f"{name}_bucket", {"le": "+Inf"}, count)
        self._sample(f"{name}_sum", _NONE, seconds)
        self._sample(f"{name}_count", _NONE, count)

    def text(self) -> str:
        return "\n".join([*self._lines, ""])

    def _family(self, name: str, kind: str, says: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._head(name, kind, says)
        for labels, value in samples:
            self._sample(name, labels, value)

    def _head(self, name: str, kind: str, says: str) -> None:
        self._lines.append(f"# HELP {name} {_escaped(says)}")
        self._lines.append(f"# TYPE {name} {kind}")

    def _sample(self, name: str, labels: Labels, value: float) -> None:
        shown = ",".join(f'{key}="{_quoted(text)}"' for key, text in labels.items())
        self._lines.append(f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}")


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
