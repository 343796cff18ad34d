"""The data source for who calls: the name that programs and notebooks import, see `analysis/spark/source.py`."""

from oms_journal.analysis.spark.source import JournalSource, register

__all__ = ["JournalSource", "register"]
