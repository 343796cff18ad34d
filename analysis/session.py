"""A Spark session for who calls: the name that programs and notebooks import, see `analysis/spark/session.py`."""

from oms_journal.analysis.spark.session import quiet_session

__all__ = ["quiet_session"]
