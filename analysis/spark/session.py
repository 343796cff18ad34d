"""A quiet Spark session: what Spark says goes to a file, and the settings are those that the questions need.

setting (spark.…)                      value            why
master                                 local[*]         all processors of this machine, unless told otherwise
sql.session.timeZone                   UTC              as the journal's times: buckets do not depend on the place
sql.ansi.enabled                       true             an overflow or a bad cast is an error, never a silent null
sql.python.filterPushdown.enabled      where it is safe filters then skip whole data files (see `source.py`)
ui.enabled, ui.showConsoleProgress     false            no port is opened, no bar of Spark's is drawn
sql.shuffle.partitions                 4 × processors   locally: 200 small tasks cost more than they do
driver.memory                          1 to 4 GiB       an eighth of the machine's: locally it is all that Spark has
driver.extraJavaOptions                as below         each value that Python hands over is looked at once, not thrice;
                                                        a caller's own options follow ours
"""

import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    import pyspark
    from pyspark.conf import SparkConf
    from pyspark.core.context import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

import oms_journal.journal
from oms_journal.analysis.spark.java import find_java, java_home
from oms_journal.analysis.spark.source import is_pushdown_safe, register, use_this_python
from oms_journal.journal.errors import JournalError

STOP_SECONDS_MAX = 30.0  # the Java process is killed when it takes longer to end
LOG_LINES_SHOWN = 5
GIB = 1 << 30
SMALL_BYTES = 256 << 20  # of data files; at 80 MiB the quick compiler still takes a tenth less time in all
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Spark asks whether a value is there before it reads it, and what is read was checked when the batch was made.
_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
_ERROR_LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class SparkFailed(JournalError):
    """Spark's Java process did not start; the text has the end of what it said."""


@contextmanager
def quiet_session(
    *,
    master: str | None = None,
    name: str = "oms",
    log: Path | None = None,
    settings: Mapping[str, str] | None = None,
    folds_only: bool = False,
) -> Iterator[SparkSession]:
    """Start Spark, with the source `omsjournal` known to it, and stop it at the end; NoJava, SparkFailed.

    Without a master it runs in this machine's processors, or where `spark-submit` says. What Spark and
    its workers print goes to the file `log`, or to one that is removed at the end. `settings` win over ours. A session
    that has folds alone to do takes a third less of the processors to start: it has neither the source nor Spark's
    machine learning.
    Ctrl-C and SIGTERM have to wait until it is started, some seconds; then they take effect.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oms-spark-")))
        stack.enter_context(_without_error_logs())
        conf = _configured(master, name, settings or {})
        with _interrupted_afterwards():
            if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started Java, and says where it logs
                context = SparkContext(conf=conf)
                context.setLogLevel("ERROR")
                stack.callback(context.stop)
            else:
                java = _own_java(conf, folder, log or folder / "spark.log", has_ml=not folds_only)
                context = stack.enter_context(java)
            spark = SparkSession(context)
            stack.callback(spark.stop)
            if folds_only:
                use_this_python(spark)
            else:
                register(spark)
        yield spark


@contextmanager
def brief_session(**named: Any) -> Iterator[tuple[SparkSession, Callable[[], None]]]:
    """Start Spark as `quiet_session` does, and yield with it a function that ends it before the block does.

    The function returns at once, and the block goes on while Spark ends. Behind the block it has ended.
    """
    with ThreadPoolExecutor(1, "spark-end") as beside, ExitStack() as stack:
        spark = stack.enter_context(quiet_session(**named))
        ending: list[Future[None]] = []
        yield spark, lambda: ending.append(beside.submit(stack.close))
        for one in ending:
            one.result()


def settings_for(size: int, master: str | None = None) -> dict[str, str]:
    """Return settings for the analysis of so many bytes of data files, as far as their operations go through Java.

    A small journal is read before Java's better compiler has paid, and fits into memory as it is. That compiler takes
    two fifths of the processor time of a session that does nothing but start and fold.
    """
    if size >= SMALL_BYTES:
        return {}
    found = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
    }
    if master is None or master.startswith("local"):
        found["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
    return found


def _configured(master: str | None, name: str, settings: Mapping[str, str]) -> SparkConf:
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    chosen = {
        "spark.app.name": name,
        "spark.log.level": "WARN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": str(is_pushdown_safe()).lower(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
    }
    if master is not None or not is_submitted:
        chosen["spark.master"] = master or "local[*]"
    if chosen.get("spark.master", "").startswith("local"):
        chosen |= {
            "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
            "spark.driver.memory": f"{_memory_bytes() >> 20}m",
            "spark.driver.host": "127.0.0.1",  # the machine's own name need not lead anywhere
            "spark.driver.bindAddress": "127.0.0.1",
        }
        settings = {**settings, _JAVA_OPTIONS: f"{_ARROW} {settings.get(_JAVA_OPTIONS, '')}".strip()}
    elif not is_submitted:
        chosen["spark.executor.extraJavaOptions"] = _ARROW
    conf = SparkConf(loadDefaults=is_submitted)
    for key, value in {**chosen, **settings}.items():
        conf.set(key, value)
    return conf


def _memory_bytes() -> int:
    """Return how much memory the driver gets."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return GIB
    return min(max(total // 8, GIB), 4 * GIB)


@contextmanager
def _own_java(conf: SparkConf, folder: Path, log: Path, *, has_ml: bool) -> Iterator[SparkContext]:
    """Start a Java process whose output goes to the log, and end it."""
    is_local = conf.get("spark.master", "").startswith("local")
    variables = {"JAVA_HOME": str(java_home(find_java(), folder / "java")), "PYTHONPATH": _python_path()}
    if is_local:
        if "SPARK_HOME" not in os.environ:
            variables["SPARK_HOME"] = str(_spark_home(folder / "spark", has_ml=has_ml))
        # Workers have to be the interpreter that has what we import, whatever `python3` is on the path.
        variables |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    elif "PYSPARK_PYTHON" not in os.environ:
        variables["PYSPARK_PYTHON"] = sys.executable
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        stack.enter_context(_environment(variables))
        try:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
            stack.callback(_end, gateway)
            context = SparkContext(conf=conf, gateway=gateway)
        except PySparkException as failure:
            raise SparkFailed(f"Spark did not start: {_last_words(log) or failure}") from failure
        stack.callback(context.stop)
        yield context


def _python_path() -> str:
    """Return a PYTHONPATH by which the workers import the code that runs here, and no other version of it."""
    ours, installed = (Path(each.__file__ or "").parent.parent for each in (oms_journal, pyspark))
    before = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return os.pathsep.join(dict.fromkeys([str(ours), *before, str(installed)]))


def _spark_home(folder: Path, *, has_ml: bool) -> Path:
    """Return a SPARK_HOME of the installed PySpark, without the archive of its Python code.

    Each of Spark's four kinds of workers would import that archive first, and compile what it imports every time:
    seconds of work. Installed modules were compiled once. Without `has_ml` the machine learning is left out too: where
    it is there, every new session loads its functions, and hundreds of classes that these take.
    """
    installed = Path(pyspark.__file__).parent
    _link(installed, folder, lambda name: name != "python" and (has_ml or name != "jars"))
    if not has_ml:
        _link(installed / "jars", folder / "jars", lambda name: not name.startswith("spark-mllib_"))
    return folder


def _link(source: Path, folder: Path, is_wanted: Callable[[str], bool]) -> None:
    folder.mkdir()
    for entry in source.iterdir():
        if is_wanted(entry.name):
            (folder / entry.name).symlink_to(entry)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """Let the block come to its end when Ctrl-C or SIGTERM come in it: they reach whom they belong to behind it.

    Interrupted, PySpark forgets the Java process that it is starting, and removes the folder in which that is to say
    where it listens: Java fails there, and listens for ever. Behind the block Ctrl-C is given back, which Spark takes.
    """
    if threading.current_thread() is not threading.main_thread():  # no signal reaches it, and Spark takes none
        yield
        return
    came: list[int] = []
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in found.items() if handler is not None}  # else it is not Python's
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in came:
            signal.raise_signal(one)


@contextmanager
def _without_error_logs() -> Iterator[None]:
    """Keep Spark's Python side from printing an error that it raises all the same."""
    loggers = [logging.getLogger(name) for name in _ERROR_LOGS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _end(gateway: Any) -> None:
    """End the Java process, so that another session can start one of its own."""
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if gateway.proc is None:
        return
    gateway.proc.stdin.close()  # which it takes as the end of its parent
    try:
        gateway.proc.wait(STOP_SECONDS_MAX)
    except TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def _last_words(log: Path) -> str:
    """Return the end of the log on one line."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip() and not line.startswith(("\tat ", "WARNING: "))]
    return " | ".join(said[-LOG_LINES_SHOWN:])
