"""What a backup or a restore refuses, and that the sentence says how to mend it."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from evalhub.backup import databases
from evalhub.backup.manifest import (
    MANIFEST,
    OBJECTS,
    BackupError,
    Listed,
    described_file,
    read_listing,
    write_listing,
)
from evalhub.supervisor.directory import claim_data_directory
from evidence.store.storage import object_store
from tests.evalhub.backup.conftest import Installed, Kind
from tests.evidence.factories import make_sealed_lane
from tests.lanes.factories import make_attempt, make_plan
from tests.programs.evalhub import clean_environment
from tests.programs.server import ROOT

pytestmark = pytest.mark.slow

EMPTY = Kind("sqlite", "directory")


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return tmp_path / "backup"


@pytest.fixture
def evidence(installed: Installed) -> Iterator[list[str]]:
    """An installation with a little evidence; the keys of its segments' objects."""
    with installed(EMPTY._replace(has_tables=True)):
        make_sealed_lane(make_attempt(make_plan()))
        yield [key for key in object_store().keys() if key.endswith(".zip")]  # noqa: SIM118


def refused(*command: str) -> str:
    with pytest.raises(CommandError) as told:
        call_command(*command)
    return str(told.value)


def changed(path: Path, content: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(content)


def part(backup: Path, name: str) -> Path:
    """Return the file that the manifest names as its `database` or `listing`."""
    manifest = json.loads((backup / MANIFEST).read_text())
    return backup / str(manifest[name]["name"])


def test_unfinished_backup_is_none(backup: Path) -> None:
    backup.mkdir()
    (backup / "database-20261129T120000Z-abcdef").write_bytes(b"half")

    assert "manifest.json, which is written last, is not there" in refused("restore", str(backup))


@pytest.mark.parametrize("name", ["database", "listing"])
def test_truncated_file_is_refused(evidence: list[str], backup: Path, name: str) -> None:
    call_command("backup", str(backup))
    path = part(backup, name)
    os.truncate(path, path.stat().st_size - 10)

    sentence = refused("restore", str(backup), "--check")

    assert f"{path} is damaged" in sentence
    assert "Restore another backup." in sentence


def test_damaged_object_is_refused_by_name(evidence: list[str], backup: Path) -> None:
    call_command("backup", str(backup))
    (key, *_) = evidence
    copy = backup / OBJECTS / key
    original = copy.read_bytes()
    changed(copy, original[:-1] + bytes([original[-1] ^ 1]))

    damaged = refused("restore", str(backup), "--check")
    copy.unlink()
    absent = refused("restore", str(backup), "--check")

    for sentence in (damaged, absent):
        assert f"1 objects of the backup are absent or damaged: {key}." in sentence


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"{}",
        b'{"key": 5, "size_bytes": 1, "sha256": "x"}',
        b'{"key": "../../outside", "size_bytes": 1, "sha256": "x"}',
        b'{"key": "/etc/hostname", "size_bytes": 1, "sha256": "x"}',
        b'{"key": "%s", "size_bytes": 1, "sha256": "x"}' % (b"a" * 5000),
    ],
)
def test_list_that_leads_outside_is_refused(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "objects.ndjson"
    sound = Listed("a/b-1.zip", 1, "sha256:0")
    write_listing(path, [sound])
    with path.open("ab") as file:
        file.write(line + b"\n")

    entries = read_listing(path)

    assert next(entries) == sound
    with pytest.raises(BackupError, match=r"Line 2 .* Restore another backup"):
        next(entries)


def test_manifest_of_another_form_is_refused(evidence: list[str], backup: Path) -> None:
    call_command("backup", str(backup))
    changed(backup / MANIFEST, b'{"form": "evalhub.backup/9"')

    assert "cannot be used" in refused("restore", str(backup))


def test_name_that_no_file_can_have_is_refused_in_a_sentence(
    evidence: list[str], backup: Path
) -> None:
    call_command("backup", str(backup))
    manifest = json.loads((backup / MANIFEST).read_text())
    for name in ("x" * 5000, "é" * 200):
        manifest["database"]["name"] = name
        changed(backup / MANIFEST, json.dumps(manifest).encode())

        sentence = refused("restore", str(backup), "--check")

        assert "database/name: Value error, a name of at most 255 bytes" in sentence


def test_damaged_database_is_refused_though_its_digest_is_right(
    evidence: list[str], backup: Path, installed: Installed
) -> None:
    call_command("backup", str(backup))
    path = part(backup, "database")
    content = bytearray(path.read_bytes())
    # The disk that it was copied from was damaged, and nobody saw.
    content[4096 : len(content) - 4096] = bytes(len(content) - 8192)
    changed(path, bytes(content))
    manifest = json.loads((backup / MANIFEST).read_text())
    manifest["database"] = described_file(path).model_dump()
    changed(backup / MANIFEST, json.dumps(manifest).encode())

    assert f"{path} is damaged, though" in refused("restore", str(backup), "--check")
    with installed(EMPTY):
        assert "SQLite says" in refused("restore", str(backup))


def test_nothing_is_restored_under_a_server_that_runs(
    evidence: list[str], backup: Path, installed: Installed, settings: Settings
) -> None:
    call_command("backup", str(backup))
    with installed(EMPTY):
        directory = claim_data_directory(settings.DATA_DIR)

        sentence = refused("restore", str(backup))

        assert "Nothing is restored under a server that runs" in sentence
        assert f"process {os.getpid()}" in sentence
        assert not databases.tables()
        os.close(directory.lock)
        call_command("restore", str(backup))
        # And it has let go of the directory.
        os.close(claim_data_directory(settings.DATA_DIR).lock)


def test_manifest_that_leads_elsewhere_is_refused(evidence: list[str], backup: Path) -> None:
    call_command("backup", str(backup))
    manifest = json.loads((backup / MANIFEST).read_text())
    manifest["database"]["name"] = "../elsewhere"
    changed(backup / MANIFEST, json.dumps(manifest).encode())

    assert "cannot be used" in refused("restore", str(backup), "--check")


def test_target_that_holds_anything_is_refused(evidence: list[str], backup: Path) -> None:
    call_command("backup", str(backup))

    assert "The database is not empty: it has the table " in refused("restore", str(backup))


def test_object_store_with_other_objects_is_refused(
    installed: Installed, evidence: list[str], backup: Path
) -> None:
    call_command("backup", str(backup))
    with installed(EMPTY):
        with (backup / MANIFEST).open("rb") as anything:
            object_store().put("acme/other/object", anything)

        sentence = refused("restore", str(backup))

    assert "is not empty: it holds acme/other/object, which is not in this backup." in sentence


def test_interrupted_restore_is_begun_again(
    installed: Installed, evidence: list[str], backup: Path
) -> None:
    call_command("backup", str(backup))
    with installed(EMPTY):
        with (backup / OBJECTS / evidence[0]).open("rb") as restored_before:
            object_store().put(evidence[0], restored_before)

        call_command("restore", str(backup))

        assert set(evidence) <= set(object_store().keys())


def test_backup_of_a_newer_release_is_refused(
    installed: Installed, evidence: list[str], backup: Path
) -> None:
    call_command("backup", str(backup))
    manifest = json.loads((backup / MANIFEST).read_text())
    manifest["migrations"].append(["evidence_store", "9999_from_the_future"])
    manifest["release"] = "9.0.0"
    changed(backup / MANIFEST, json.dumps(manifest).encode())
    with installed(EMPTY):
        sentence = refused("restore", str(backup))

    assert "release 9.0.0, which is newer" in sentence
    assert "evidence_store.9999_from_the_future" in sentence


def test_backup_of_another_database_is_refused(
    installed: Installed, evidence: list[str], backup: Path
) -> None:
    call_command("backup", str(backup))
    manifest = json.loads((backup / MANIFEST).read_text())
    changed(backup / MANIFEST, json.dumps(manifest | {"database_kind": "postgresql"}).encode())
    with installed(EMPTY):
        assert "set DATABASE_URL so that both are the same" in refused("restore", str(backup))


def test_folder_of_something_else_is_refused(evidence: list[str], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letters.txt").touch()

    sentence = refused("backup", str(tmp_path / "home"))

    assert "holds something else (letters.txt)" in sentence
    assert (tmp_path / "home" / "letters.txt").exists()


def test_evidence_without_its_object_is_told_and_the_rest_is_kept(
    installed: Installed, evidence: list[str], backup: Path
) -> None:
    lost, damaged, *others = evidence
    object_store().delete(lost)
    with (Path(__file__)).open("rb") as other_bytes:
        object_store().put(damaged, other_bytes)

    sentence = refused("backup", str(backup))

    assert "The backup is made, but 2 objects of stored evidence are absent or damaged" in sentence
    assert lost in sentence
    assert damaged in sentence
    with installed(EMPTY):
        call_command("restore", str(backup))
        assert {damaged, *others} <= set(object_store().keys())


def test_database_without_tables_is_refused(installed: Installed, backup: Path) -> None:
    with installed(EMPTY):
        assert refused("backup", str(backup)).startswith("The database holds no evalhub")


def test_without_pg_dump_the_sentence_names_the_setting(
    installed: Installed, tmp_path: Path, settings: object, backup: Path
) -> None:
    with installed(Kind("postgresql", "directory", has_tables=True)):
        settings.POSTGRES_BIN = str(tmp_path)  # type: ignore[attr-defined]

        assert "EVALHUB_POSTGRES_BIN" in refused("backup", str(backup))


@pytest.mark.parametrize("most_bytes", [100_000, 20_000_000])
def test_full_disk_is_told_and_the_backup_before_stays(
    tmp_path: Path, sqlite_tables: Path, most_bytes: int
) -> None:
    """A file that may not grow fails like one on a full disk: first the database, then an object."""
    data, folder = tmp_path / "data", tmp_path / "backup"
    environment = {**clean_environment(), "EVALHUB_DATA": str(data)}

    def manage(*command: str, limit: int | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=None
            if limit is None
            else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )

    (data / "objects").mkdir(parents=True)
    shutil.copy(sqlite_tables, data / "evalhub.sqlite3")
    assert manage("backup", str(folder)).returncode == 0
    before = (folder / MANIFEST).read_bytes()
    (data / "objects" / "large").write_bytes(bytes(most_bytes + 1))

    done = manage("backup", str(folder), limit=most_bytes)

    assert done.returncode == 1
    assert done.stderr.startswith("CommandError: ")
    assert done.stderr.count("\n") == 1
    assert (folder / MANIFEST).read_bytes() == before
    assert manage("restore", str(folder), "--check").returncode == 0
    assert len(list(folder.glob("database-*"))) == 1
