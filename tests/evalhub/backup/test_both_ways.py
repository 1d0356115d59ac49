"""A backup gives back what was there, for each database and each object store."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import pytest
from django.core.management import call_command

from evalhub.backup import databases
from evidence.store.models import Segment
from evidence.store.storage import DirectoryStore, object_store
from tests.evalhub.backup.conftest import Installed, Kind
from tests.releases.released import RELEASES, Row, release_in, unpack_objects

pytestmark = pytest.mark.slow

KINDS = [
    Kind(database, objects)
    for database in ("sqlite", "postgresql")
    for objects in ("directory", "s3")
]
ARCHIVE = RELEASES[-1]


class Content(NamedTuple):
    """Everything that an installation keeps."""

    counts: dict[str, int]
    rows: dict[str, list[Row]]
    objects: dict[str, str]


def fill(folder: Path) -> None:
    """Fill an empty installation with what a real one of the latest release held."""
    release_in(ARCHIVE).insert()
    unpack_objects(ARCHIVE, folder)
    source, target = DirectoryStore(folder / "objects"), object_store()
    for key in source.keys():  # noqa: SIM118 - no dictionary
        with source.open(key) as file:
            target.put(key, file)


def content() -> Content:
    store = object_store()
    objects = {}
    for key in store.keys():  # noqa: SIM118 - no dictionary
        with store.open(key) as file:
            objects[key] = hashlib.sha256(file.read()).hexdigest()
    return Content(databases.counted_rows(), release_in(ARCHIVE).stored_rows(), objects)


def expect_restored(before: Content) -> None:
    """Compare everything, and the object of each receipt with what the receipt says."""
    after = content()
    assert after == before
    receipts = dict(Segment.objects.values_list("object_key", "sha256"))
    assert len(receipts) > 100
    assert {key: f"sha256:{after.objects[key]}" for key in receipts} == receipts


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_restored_installation_holds_all(installed: Installed, tmp_path: Path, kind: Kind) -> None:
    with installed(kind._replace(has_tables=True)):
        fill(tmp_path / "released")
        call_command("backup", str(tmp_path / "backup"))
        before = content()
    assert len(before.objects) > 200

    with installed(kind):
        call_command("restore", str(tmp_path / "backup"))

        expect_restored(before)


def test_objects_move_from_a_directory_to_a_bucket(installed: Installed, tmp_path: Path) -> None:
    with installed(Kind("sqlite", "directory", has_tables=True)):
        fill(tmp_path / "released")
        call_command("backup", str(tmp_path / "backup"))
        before = content()

    with installed(Kind("sqlite", "s3")):
        call_command("restore", str(tmp_path / "backup"))

        expect_restored(before)
