"""Room on disks, collected files, time zones."""

import sys
import zoneinfo
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django import Settings

from evalhub.doctor import machine
from evalhub.doctor.findings import Level
from evalhub.doctor.mounts import file_system_of
from tests.evalhub.doctor.telling import OK, WARNING, WRONG, only

_GB = 10**9


@pytest.mark.parametrize(
    ("free", "total", "level"),
    [
        (80 * _GB, 100 * _GB, OK),
        (4 * _GB, 100 * _GB, WARNING),
        (_GB, 10 * _GB, WARNING),
        (_GB // 5, 10 * _GB, WRONG),
    ],
)
def test_room_is_told_before_it_is_used_up(free: int, total: int, level: Level) -> None:
    finding = only([machine.room("objects", Path("/data"), free=free, total=total)], level)

    assert f"{free / 1e9:.1f} GB are free for the objects in /data." in finding.sentence


def test_disks_are_looked_at_where_something_lies_on_them(
    settings: Settings, tmp_path: Path
) -> None:
    settings.DATABASE_FILE, settings.OBJECTS_DIR = None, tmp_path / "not" / "yet"

    (finding,) = machine.disks()

    assert f"for the objects in {tmp_path}/not/yet." in finding.sentence
    settings.S3_BUCKET = "evidence"
    assert list(machine.disks()) == []


@pytest.fixture
def collected(settings: Settings, tmp_path: Path) -> Path:
    """Collect the static files as a release does; return where they lie."""
    settings.STORAGES = {
        "staticfiles": {
            "BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage",
            "OPTIONS": {"location": str(tmp_path)},
        }
    }
    settings.STATIC_ROOT = tmp_path
    call_command("collectstatic", interactive=False, verbosity=0)
    return tmp_path


def test_collected_files_of_this_release_are_right(collected: Path) -> None:
    assert only(machine.static_files(), OK).sentence.endswith("are collected.")


def test_stylesheet_of_another_release_is_told(collected: Path) -> None:
    manifest = collected / "staticfiles.json"
    text = manifest.read_text()
    hashed = next(collected.glob("evalhub/site.*.css")).name
    manifest.write_text(text.replace(hashed, "site.000000000000.css"))

    finding = only(machine.static_files(), WRONG)

    assert "0 are missing, 1 are old (evalhub/site.css)" in finding.sentence
    assert finding.fix.startswith("Run `manage.py collectstatic --no-input`")


def test_file_that_is_not_collected_is_told(collected: Path) -> None:
    manifest = collected / "staticfiles.json"
    manifest.write_text(manifest.read_text().replace('"evalhub/theme.js"', '"evalhub/other.js"'))

    assert "1 are missing" in only(machine.static_files(), WRONG).sentence


def test_absent_static_files_are_told(settings: Settings, tmp_path: Path) -> None:
    settings.STATIC_ROOT = tmp_path / "none"

    sentence = only(machine.static_files(), WRONG).sentence

    assert sentence == f"None are collected in {tmp_path}/none, so no page can be shown."


@pytest.fixture
def without_zones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the time zone data away: the system's, and the Python package."""
    zoneinfo.reset_tzpath(to=[])
    monkeypatch.setitem(sys.modules, "tzdata", None)
    for name in [name for name in sys.modules if name.startswith("tzdata.")]:
        monkeypatch.delitem(sys.modules, name)
    yield
    zoneinfo.reset_tzpath()


@pytest.mark.usefixtures("without_zones")
def test_absent_time_zones_are_told() -> None:
    assert "The time zone data is not installed" in only(machine.time_zones(), WRONG).sentence


def test_time_zones_that_are_there_are_right() -> None:
    assert only(machine.time_zones(), OK)


def test_file_system_is_that_of_the_deepest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    deep = tmp_path.resolve() / "with space"
    deep.mkdir()
    mounts.write_text(
        "overlay / overlay rw 0 0\n"
        f"server:/share {str(deep).replace(' ', chr(92) + '040')} nfs4 rw 0 0\n"
        f"tmpfs {tmp_path.resolve()} tmpfs rw 0 0\n"
    )

    assert file_system_of(deep / "not" / "yet", mounts=mounts) == "nfs4"
    assert file_system_of(tmp_path / "x", mounts=mounts) == "tmpfs"
    assert file_system_of(Path("/elsewhere"), mounts=mounts) == "overlay"
    assert file_system_of(Path("/"), mounts=tmp_path / "none") == ""
