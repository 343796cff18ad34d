"""Paths as people give them lead to the journals that they mean, here and elsewhere, or to a clear error."""

import pickle
import shutil
from pathlib import Path

import pytest

from oms_journal.analysis.reading import damage
from oms_journal.analysis.storage import Location, NoFileSystem, NoJournal, RemoteFile, Storage, locate, storage_options
from oms_journal.journal import names
from oms_journal.journal.errors import DiskError
from tests.support.journals.analysed import analysed, damages, planned
from tests.support.journals.plain_rows import database_of
from tests.support.journals.random_journal import RandomWriter
from tests.support.servers.s3_server import s3 as s3  # a fixture

IDENTITY = "0123456789abcdef0123456789abcdef"
DATA = "omsmsg-0000000001.data"
ARCHIVE = "omsmsg-0000000001-v0001.archive"


def _spool(directory: Path, *files: str) -> Path:
    directory.mkdir(parents=True)
    for name in files or (DATA,):
        (directory / name).write_bytes(b"")
    return directory


def _found(*paths: object) -> list[tuple[str, bool, set[str]]]:
    """Return where the paths lead: directory, whether all its data files are meant, and which files else."""
    return [(one.directory.name, one.is_whole, set(one.named)) for one in locate([str(path) for path in paths])]


def test_a_directory_stands_for_its_data_files(tmp_path: Path) -> None:
    spool = _spool(
        tmp_path / "spool", DATA, ARCHIVE, names.LOCK, names.INDEX, "omsmsg-0000000002.data.new", "notes.txt"
    )

    [location] = locate([str(spool)])

    assert location == Location(storage=Storage(), directory=spool, is_whole=True)
    assert location.names(location.storage.disk()) == [DATA]


def test_a_list_of_paths_is_read_as_all_of_them_and_each_once(tmp_path: Path) -> None:
    one, two = _spool(tmp_path / "one"), _spool(tmp_path / "two", DATA, ARCHIVE)

    assert _found(one, two, f"{one}/", two / ARCHIVE) == [("one", True, set()), ("two", True, {ARCHIVE})]


@pytest.mark.parametrize("pattern", ["*", "spool-*", "spool-?", "spool-[12]", "spool-{1,2}", "{spool-1,*-2}"])
def test_a_glob_finds_the_journals_among_other_things(pattern: str, tmp_path: Path) -> None:
    for number in (1, 2):
        _spool(tmp_path / f"spool-{number}")
    _spool(tmp_path / "logs", "oms_journal.journal.writing.log")
    (tmp_path / "notes.txt").write_text("x")

    assert _found(tmp_path / pattern) == [("spool-1", True, set()), ("spool-2", True, set())]


def test_a_glob_of_files_means_data_files_and_archives_only_where_it_says_so(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "spool", DATA, "omsmsg-0000000012.data", ARCHIVE, names.LOCK)

    assert _found(spool / "omsmsg-*") == [("spool", False, {DATA, "omsmsg-0000000012.data"})]
    assert _found(spool / "*1.data") == [("spool", False, {DATA})]
    assert _found(spool / "*.archive") == [("spool", False, {ARCHIVE})]


def test_a_single_file_is_a_data_file_or_an_archive(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "spool", DATA, ARCHIVE, names.LOCK)

    assert _found(spool / DATA) == [("spool", False, {DATA})]
    assert _found(spool / ARCHIVE) == [("spool", False, {ARCHIVE})]
    with pytest.raises(NoJournal, match=r"lock is not named like a data file or an archive"):
        locate([str(spool / names.LOCK)])


def test_a_path_that_is_there_is_taken_as_it_is_written(tmp_path: Path) -> None:
    odd = _spool(tmp_path / "sp{o,0}ol [1]* #?")

    assert _found(odd) == [(odd.name, True, set())]


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "sp ool")

    for url in (spool.as_uri(), f"file:{spool.as_posix().replace(' ', '%20')}"):
        assert _found(url) == [("sp ool", True, set())]


def test_retained_files_are_found_in_the_folders_named_after_their_database(tmp_path: Path) -> None:
    retention, spool = tmp_path / "retained", _spool(tmp_path / "spool")
    _spool(retention / IDENTITY)
    _spool(retention / "not an identity")

    root, folder, other = locate([str(retention), str(spool)])

    assert (root.is_root, root.is_whole) == (True, False)
    assert (folder.identity, folder.is_whole) == (IDENTITY, True)
    assert (other.identity, other.is_root) == ("", False)
    assert _found(retention / IDENTITY) == [(IDENTITY, True, set())]


def test_a_database_that_has_written_nothing_yet_is_a_journal_without_data_files(tmp_path: Path) -> None:
    [location] = locate([str(_spool(tmp_path / "spool", names.LOCK))])

    assert location.names(location.storage.disk()) == []
    assert analysed(tmp_path / "spool") == []
    assert damages(tmp_path / "spool") == []


@pytest.mark.parametrize("path", ["nothing", "strangers", "archives", "empty", "strang*", "nothing/*", "em{p,}ty"])
def test_a_path_without_a_journal_is_refused_by_its_name(path: str, tmp_path: Path) -> None:
    _spool(tmp_path / "strangers", "notes.txt", "omsmsg-1.data")
    _spool(tmp_path / "archives", ARCHIVE)
    (tmp_path / "empty").mkdir()

    with pytest.raises(NoJournal) as raised:
        locate([str(tmp_path / path)])

    assert str(tmp_path / path) in str(raised.value)
    assert ("archives are read when they are named" in str(raised.value)) == (path == "archives")


def test_an_empty_directory_beside_a_journal_is_where_clean_up_will_move_files_to(tmp_path: Path) -> None:
    spool, retention = _spool(tmp_path / "spool"), tmp_path / "retained"
    retention.mkdir()

    assert _found(spool, retention) == [("spool", True, set()), ("retained", False, set())]


def test_no_path_at_all_is_refused() -> None:
    with pytest.raises(NoJournal, match="no path at all"):
        locate([])


def test_a_directory_that_may_not_be_listed_is_refused(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "spool")
    [location] = locate([str(spool)])
    shutil.rmtree(spool)

    with pytest.raises(DiskError, match="cannot list"):
        location.names(location.storage.disk())


@pytest.mark.parametrize("url", ["nowhere://bucket/spool", "hdfs2:/spool"])
def test_a_file_system_that_nobody_knows_is_refused_by_its_name(url: str) -> None:
    with pytest.raises(NoFileSystem, match=url.partition(":")[0]):
        locate([url])


def test_options_for_the_file_system_are_told_from_the_others() -> None:
    options = {"path": "s3a://b/x", "storage.key": "123", "storage.anon": "true", "storage.client_kwargs": '{"a": 1}'}

    assert storage_options(options) == {"key": "123", "anon": True, "client_kwargs": {"a": 1}}


def test_what_travels_to_a_worker_is_small_and_shows_no_credentials() -> None:
    storage = Storage("s3://bucket/", '{"secret": "hush"}')

    assert pickle.loads(pickle.dumps(storage)) == storage
    assert len(pickle.dumps(storage)) < 200
    assert "hush" not in repr(storage)


def test_a_remote_file_system_is_only_read(tmp_path: Path) -> None:
    [location] = locate([_to_memory(_spool(tmp_path / "spool", DATA), "only-read")])
    disk, path = location.storage.disk(), location.directory / DATA
    file = disk.open(path)

    for refused in (
        lambda: disk.open(path, writable=True),
        lambda: disk.create(path),
        lambda: disk.open_lock(path),
        lambda: disk.make_directory(path),
        lambda: disk.rename(path, path),
        lambda: disk.unlink(path),
        lambda: disk.sync_directory(path),
        lambda: disk.free_bytes(path),
        lambda: file.write(b"x", 0),
        lambda: file.write_durably((b"x",), 0),
        lambda: file.sync(),
        lambda: file.truncate(0),
        lambda: file.reserve(1),
    ):
        with pytest.raises(OSError, match="only reads"):
            refused()


def _to_memory(directory: Path, name: str) -> str:
    """Copy a directory into fsspec's file system in memory; return its URL."""
    import fsspec

    target = fsspec.filesystem("memory")
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            target.pipe_file(f"/{name}/{path.relative_to(directory).as_posix()}", path.read_bytes())
    return f"memory://{name}"


def test_bytes_of_a_remote_file_are_read_as_of_a_local_one(tmp_path: Path) -> None:
    (_spool(tmp_path / "spool", DATA) / DATA).write_bytes(bytes(range(100)))
    [location] = locate([_to_memory(tmp_path / "spool", "bytes")])
    file = location.storage.disk().open(location.directory / DATA)
    buffer = bytearray(10)

    assert isinstance(file, RemoteFile)
    assert file.size() == 100
    assert file.read(10, 5) == bytes(range(5, 15))
    assert file.read(10, 95) == bytes(range(95, 100))
    assert file.read(10, 100) == file.read(10, 1000) == b""
    assert file.read_into(memoryview(buffer), 98) == 2
    assert buffer[:2] == bytes((98, 99))


def test_a_journal_elsewhere_is_read_like_one_here(tmp_path: Path) -> None:
    spool, retention = tmp_path / "spool", tmp_path / "retained"
    RandomWriter(spool, 3, retention=retention).write(openings=2, steps=50)
    one, other = _to_memory(spool, "brokers/spool"), _to_memory(retention, "retained")

    assert analysed(one, other) == analysed(spool, retention)
    assert analysed("memory://brokers/*") == analysed(spool)
    assert analysed(f"{one}/{_newest(spool)}") == analysed(spool / _newest(spool))
    assert damages(one, other) == []


def _newest(spool: Path) -> str:
    return max(path.name for path in spool.glob("*.data"))


@pytest.mark.whole
def test_a_journal_on_an_s3_server_is_read_like_a_local_one(s3: dict[str, str], tmp_path: Path) -> None:
    import s3fs

    spool, retention = tmp_path / "spool", tmp_path / "retained"
    RandomWriter(spool, 5, retention=retention).write(openings=2, steps=50, max_data_file_size=8000)
    bucket = s3fs.S3FileSystem(**storage_options(s3))
    bucket.mkdir("history")
    bucket.put(f"{spool}/", "history/broker-1/spool/", recursive=True)
    bucket.put(f"{retention}/", "history/broker-1/retained/", recursive=True)
    url = "s3a://history/broker-1"

    def read(*paths: str) -> list[dict[str, object]]:
        return analysed(*paths, options=s3)

    assert read(f"{url}/spool", f"{url}/retained") == analysed(spool, retention)
    assert read(f"{url}/sp*") == read("s3://history/*/spool") == analysed(spool)
    assert read(f"{url}/spool/{_newest(spool)}") == analysed(spool / _newest(spool))
    assert read(f"{url}/retained/{database_of(spool)}") == analysed(retention)
    assert damages(f"{url}/spool", options=s3) == []
    with pytest.raises(NoJournal, match="s3a://history/nothing does not exist"):
        locate(["s3a://history/nothing"], s3)
    with pytest.raises(NoJournal, match="s3a://no-such-bucket/spool does not exist"):
        locate(["s3a://no-such-bucket/spool"], s3)


def test_an_object_that_has_gone_is_damage_that_says_so(s3: dict[str, str], tmp_path: Path) -> None:
    import s3fs

    RandomWriter(tmp_path / "spool", 6).write(openings=1, steps=30)
    bucket = s3fs.S3FileSystem(**storage_options(s3))
    bucket.mkdir("going")
    bucket.put(f"{tmp_path / 'spool'}/", "going/spool/", recursive=True)
    partitions = planned("s3a://going/spool", options=s3)
    [name] = {part.name for one in partitions for part in one.parts if part.is_newest}
    bucket.rm_file(f"going/spool/{name}")

    found = [row for one in partitions for part in one.parts for row in damage.found_in(part.storage.disk(), part)]

    assert [(row.kind, row.file) for row in found] == [("gone", name)]
