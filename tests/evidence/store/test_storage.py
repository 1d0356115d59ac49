"""Both object stores keep one contract; what each has of its own comes after."""

import io
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pytest_django import Settings

from evidence.store import queries
from evidence.store.storage import (
    DirectoryStore,
    ObjectMissingError,
    ObjectStore,
    S3Place,
    S3Store,
    StorageUnavailableError,
    object_store,
)
from tests.evidence.factories import make_run, make_segment, send_segment
from tests.lanes.factories import make_attempt
from tests.programs.s3 import S3Server

pytestmark = pytest.mark.slow

KEY = "acme/agent/sha256:00/ordinary-1/att_1/1-ab.zip"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Place]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server.place


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "directory":
        return DirectoryStore(tmp_path / "objects")
    place: S3Place = request.getfixturevalue("s3")
    emptied = S3Store(place)
    for key in list(emptied.keys()):
        emptied.delete(key)
    return emptied


def test_object_is_read_back_whole_and_in_part(store: ObjectStore) -> None:
    data = bytes(range(256)) * 5000

    store.put(KEY, io.BytesIO(data))

    with store.open(KEY) as file:
        assert file.read() == data
        file.seek(10)
        assert file.read(3) == data[10:13]
    assert store.size(KEY) == len(data)
    assert store.read_range(KEY, offset=1000, length=20) == data[1000:1020]
    assert store.read_range(KEY, offset=len(data) - 5, length=20) == data[-5:]


def test_put_begins_where_the_source_stands(store: ObjectStore) -> None:
    source = io.BytesIO(b"0123456789")
    source.seek(4)

    store.put(KEY, source)

    assert store.read_range(KEY, offset=0, length=100) == b"456789"


def test_put_again_replaces(store: ObjectStore) -> None:
    store.put(KEY, io.BytesIO(b"first and longer"))
    store.put(KEY, io.BytesIO(b"second"))

    assert store.read_range(KEY, offset=0, length=100) == b"second"


def test_object_that_is_not_there_says_so(store: ObjectStore) -> None:
    assert not store.exists(KEY)
    for read in (store.open, store.size):
        with pytest.raises(ObjectMissingError, match=r"1-ab\.zip"):
            read(KEY)
    with pytest.raises(ObjectMissingError):
        store.read_range(KEY, offset=0, length=1)


def test_deleted_object_is_gone_and_may_be_deleted_again(store: ObjectStore) -> None:
    store.put(KEY, io.BytesIO(b"text"))

    store.delete(KEY)
    store.delete(KEY)

    assert not store.exists(KEY)


def test_keys_are_listed_folder_by_folder(store: ObjectStore) -> None:
    keys = ["b/2", "a/10", "a/1", "ab", "a-b/c", "a.b", "a/é/z", "a/é/y", "a/è"]
    for key in keys:
        store.put(key, io.BytesIO(b"text"))

    listed = list(store.keys())

    assert sorted(listed) == sorted(keys)
    for folder in ("a/", "a/é/"):
        inside = [key.startswith(folder) for key in listed]
        assert sum(now and not before for before, now in pairwise([False, *inside])) == 1
    assert list(store.keys("a/1")) == ["a/1", "a/10"]
    assert list(store.keys("a/é/")) == ["a/é/y", "a/é/z"]
    assert list(store.keys("nothing")) == []


@pytest.mark.parametrize(
    "key", ["/etc/passwd", "../up", "a/../b", "a//b", "a/./b", "a\\b", "a\0b", "", ".incoming/a"]
)
def test_key_that_is_not_plain_is_a_fault_of_ours(store: ObjectStore, key: str) -> None:
    with pytest.raises(ValueError, match="not a plain relative key"):
        store.put(key, io.BytesIO(b"text"))
    with pytest.raises(ValueError, match="not a plain relative key"):
        store.open(key)


def test_directory_leaves_nothing_of_a_write_that_failed(tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    store = DirectoryStore(tmp_path)

    with pytest.raises(StorageUnavailableError, match="Input/output error"):
        store.put(KEY, Broken())

    assert list(store.keys()) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_directory_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("in the way")

    with pytest.raises(StorageUnavailableError, match="could not write"):
        DirectoryStore(tmp_path / "objects").put(KEY, io.BytesIO(b"text"))


def test_directory_that_cannot_be_read_is_unavailable(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    (tmp_path / "folder").mkdir()

    with pytest.raises(StorageUnavailableError, match="could not be read"):
        store.open("folder")


def test_s3_that_is_away_is_unavailable_and_tells_no_address() -> None:
    place = S3Place("bucket", "http://127.0.0.1:9", "us-east-1", "id", "secret")

    with pytest.raises(StorageUnavailableError) as caught:
        S3Store(place).put(KEY, io.BytesIO(b"text"))

    assert "127.0.0.1" not in caught.value.detail
    assert caught.value.status == 503


def test_bucket_that_is_not_there_is_unavailable_not_a_missing_object(s3: S3Place) -> None:
    store = S3Store(s3._replace(bucket="no-such-bucket"))

    with pytest.raises(StorageUnavailableError):
        store.open(KEY)
    with pytest.raises(StorageUnavailableError):
        list(store.keys())


def test_settings_choose_the_store(settings: Settings, tmp_path: Path) -> None:
    settings.S3_BUCKET = ""
    settings.OBJECTS_DIR = tmp_path
    directory = object_store()
    settings.S3_BUCKET = "evidence"
    settings.S3_ACCESS_KEY_ID = settings.S3_SECRET_ACCESS_KEY = "known"
    bucket = object_store()

    assert isinstance(directory, DirectoryStore)
    assert directory.root == tmp_path
    assert isinstance(bucket, S3Store)
    assert bucket is object_store()


@pytest.mark.django_db
def test_intake_works_on_a_bucket_alike(settings: Settings, s3: S3Place) -> None:
    settings.S3_BUCKET = s3.bucket
    settings.S3_ENDPOINT_URL = s3.endpoint_url
    settings.S3_REGION = s3.region
    settings.S3_ACCESS_KEY_ID = s3.access_key_id
    settings.S3_SECRET_ACCESS_KEY = s3.secret_access_key
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/agent.1.log": os.urandom(100_000)})

    first, again = send_segment(attempt, data), send_segment(attempt, data)
    run = make_run(attempt, turns=5)

    assert (first.is_new, again.is_new) == (True, False)
    item = run.items.select_related("segment").get(kind="transcript")
    assert len(queries.item_bytes(item).splitlines()) == 5
