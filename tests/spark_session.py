"""The one Spark session that all tests share. Where there is no Java they are skipped, with what to install.

In `make test` Spark interprets its queries: to generate Java for each, and to compile that, takes a third of its time.
Where the whole is asked for, it generates code, as it does for users.
"""

import atexit
import signal
import warnings
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2]"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # starts sooner; small data
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> "SparkSession":
    """A session with the source `omsjournal`; what Java and the workers say is not shown."""
    return shared_session(is_interpreted="not whole" in pytestconfig.getoption("markexpr"))


@cache
def shared_session(*, is_interpreted: bool) -> "SparkSession":
    """Start Spark, at the first call, until the tests end."""
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install -e '.[analysis]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Spark's own imports
        from oms_journal.analysis.spark.java import NoJava, find_java
        from oms_journal.analysis.spark.session import quiet_session

        try:
            find_java()
        except NoJava as failure:
            pytest.skip(str(failure))
        until_the_end = ExitStack()
        on_interrupt = signal.getsignal(signal.SIGINT)
        settings = SETTINGS | (INTERPRETED if is_interpreted else {})
        session = until_the_end.enter_context(quiet_session(master=MASTER, name="tests", settings=settings))
        signal.signal(signal.SIGINT, on_interrupt)  # Ctrl-C is for the tests, also for those of Ctrl-C
        atexit.register(until_the_end.close)
        return session
