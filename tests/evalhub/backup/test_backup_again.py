"""A backup into a folder that has one copies what is new only, and nobody has to stop for it."""

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from evalhub.backup.making import make_backup
from evalhub.backup.manifest import MANIFEST, OBJECTS, read_manifest
from evalhub.protocol.paths import run_folder
from evidence.store.models import Segment
from evidence.store.storage import object_store
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt
from tests.evalhub.backup.conftest import Installed, Kind
from tests.evidence.factories import make_segment, result_bytes, run_keys, send_segment
from tests.lanes.factories import make_attempt, make_plan
from tests.programs.evalhub import clean_environment
from tests.programs.processes import wait_for
from tests.programs.server import ROOT

pytestmark = pytest.mark.slow

HERE = Kind("sqlite", "directory", has_tables=True)


def some_attempt() -> Attempt:
    return make_attempt(make_plan(epochs=500))


def send(attempt: Attempt, seq: int) -> str:
    """Send the result of one run; return the digest that the receipt names."""
    folder = run_folder(run_keys(attempt)[seq - 1])
    data = make_segment(attempt, {f"{folder}/result.json": result_bytes()}, seq=seq)
    return send_segment(attempt, data, seq=seq).receipt.sha256


def copies(folder: Path) -> dict[str, int]:
    """Return when each object of the backup was written."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in (folder / OBJECTS).rglob("*.zip")
    }


def test_second_backup_copies_what_is_new(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    with installed(HERE):
        attempt = some_attempt()
        send(attempt, 1)
        make_backup(folder, at=timezone.now())
        before = copies(folder)
        send(attempt, 2)

        made = make_backup(folder, at=timezone.now())

    after = copies(folder)
    assert len(after) == len(before) + 1
    assert {key: after[key] for key in before} == before
    # Not the first segment and its receipt; documents that are not named for their content, again.
    assert made.copied == made.manifest.object_count - 2
    assert len(list(folder.glob("database-*"))) == len(list(folder.glob("objects-*"))) == 1


def test_damaged_copy_is_made_anew(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    with installed(HERE):
        send(some_attempt(), 1)
        make_backup(folder, at=timezone.now())
        (copy,) = (folder / OBJECTS).rglob("*.zip")
        whole = copy.read_bytes()
        copy.write_bytes(whole[:-5])

        make_backup(folder, at=timezone.now())

        assert copy.read_bytes() == whole


def test_emptied_database_does_not_replace_what_is_kept(
    installed: Installed, tmp_path: Path
) -> None:
    folder = tmp_path / "backup"
    with installed(HERE):
        send(some_attempt(), 1)
        kept = make_backup(folder, at=timezone.now()).manifest
    with installed(HERE):
        with pytest.raises(CommandError, match="emptied, restored, or is another one"):
            call_command("backup", str(folder))

        assert read_manifest(folder) == kept
        assert len(list(folder.glob("database-*"))) == 1


def test_two_backups_at_once_into_one_folder_are_refused(
    installed: Installed, tmp_path: Path
) -> None:
    folder = tmp_path / "backup"
    with installed(HERE):
        some_attempt()
        make_backup(folder, at=timezone.now())
        with (folder / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

            with pytest.raises(CommandError, match=r"Another backup into .* is under way"):
                call_command("backup", str(folder))


@contextmanager
def lanes_that_upload(attempt: Attempt) -> Iterator[tuple[dict[int, str], Event]]:
    """Send segments one after the other in another thread; what has a receipt is noted."""
    acknowledged: dict[int, str] = {}
    stop, some = Event(), Event()

    def upload() -> None:
        try:
            mine = plans_queries.attempt_with_key(attempt.key)
            for seq in range(1, len(run_keys(mine)) + 1):
                if stop.is_set():
                    return
                acknowledged[seq] = send(mine, seq)
                if seq == 5:
                    some.set()
        finally:
            connection.close()
            some.set()

    with ThreadPoolExecutor(1) as pool:
        lane = pool.submit(upload)
        try:
            yield acknowledged, some
        finally:
            stop.set()
            lane.result()


@pytest.mark.parametrize(
    "kind",
    [HERE, HERE._replace(objects="s3"), HERE._replace(database="postgresql")],
    ids=str,
)
def test_backup_during_uploads_holds_each_receipt_with_its_object(
    installed: Installed, tmp_path: Path, kind: Kind
) -> None:
    folder = tmp_path / "backup"
    with installed(kind):
        with lanes_that_upload(some_attempt()) as (acknowledged, some):
            assert some.wait(60)
            before = dict(acknowledged)
            manifest = make_backup(folder, at=timezone.now()).manifest
            meanwhile = len(acknowledged)
        assert len(before) >= 5

    assert manifest.faults == {}
    with installed(kind._replace(has_tables=False)):
        call_command("restore", str(folder))

        restored = dict(Segment.objects.values_list("seq", "sha256"))
        assert before.items() <= restored.items()
        # It is of one moment: later ones are not in it, or all that came before them are.
        assert sorted(restored) == list(range(1, len(restored) + 1))
        assert len(restored) <= meanwhile + 1
        for segment in Segment.objects.all():
            with object_store().open(segment.object_key) as file:
                assert f"sha256:{hashlib.sha256(file.read()).hexdigest()}" == segment.sha256


def test_manifest_counts_what_is_there(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    with installed(HERE):
        send(some_attempt(), 1)
        call_command("backup", str(folder))

    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["rows"]["evidence_store_segment"] == 1
    assert manifest["object_count"] == len(
        [p for p in (folder / OBJECTS).rglob("*.*") if p.is_file()]
    )
    assert ["evidence_store", "0001_initial"] in manifest["migrations"]
    assert folder.stat().st_mode & 0o077 == 0


def test_killed_backup_is_none_and_is_made_again(sqlite_tables: Path, tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "backup"
    (data / "objects").mkdir(parents=True)
    shutil.copy(sqlite_tables, data / "evalhub.sqlite3")
    for number in range(400):
        (data / "objects" / f"{number}.json").write_text("{}")
    command = [sys.executable, "manage.py", "backup", str(folder)]
    environment = {**clean_environment(), "EVALHUB_DATA": str(data)}

    first = subprocess.Popen(command, cwd=ROOT, env=environment)
    assert wait_for(lambda: len(list((folder / OBJECTS).glob("*.json"))) > 20, 60)
    first.kill()
    first.wait()

    with pytest.raises(CommandError, match="holds no finished backup"):
        call_command("restore", str(folder), "--check")
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    call_command("restore", str(folder), "--check")
    assert len(list(folder.glob("database-*"))) == 1
    assert json.loads((folder / MANIFEST).read_text())["object_count"] == 400
