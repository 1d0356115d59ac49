"""What this machine must have: room, collected files, the time zone data."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import ManifestStaticFilesStorage
from django.core.files.storage import Storage

from evalhub.doctor.findings import Finding, ok, warning, wrong
from evalhub.web.disks import standing_part
from evidence.store.storage import folder_of_objects

# Below the first an upload of a few lanes fills the disk, below the second it is time to look.
_LEAST_BYTES, _SCARCE_BYTES, _SCARCE_SHARE = 500e6, 2e9, 0.05
# One that is not in any country's law any more would not show that the data is whole.
_A_ZONE = "Europe/Berlin"
_COLLECT = "Run `manage.py collectstatic --no-input` with this release."


def disks() -> Iterator[Finding]:
    """See whether there is room where the database and the objects lie."""
    kept = {"database": settings.DATABASE_FILE, "objects": folder_of_objects()}
    for holds, path in kept.items():
        if path is not None:
            usage = shutil.disk_usage(standing_part(path))
            yield room(holds, path, free=usage.free, total=usage.total)


def room(holds: str, path: Path, *, free: int, total: int) -> Finding:
    """Say whether so many free bytes of so many are enough."""
    sentence = f"{free / 1e9:.1f} GB are free for the {holds} in {path}."
    fix = "Make room or move EVALHUB_DATA: uploads are refused when nothing is left."
    if free < _LEAST_BYTES:
        return wrong("disk", f"Only {sentence}", fix=fix)
    if free < _SCARCE_BYTES or free < _SCARCE_SHARE * total:
        return warning("disk", f"Only {sentence}", fix=fix)
    return ok("disk", sentence)


def static_files() -> Iterator[Finding]:
    """See whether pages find their stylesheet and scripts, and those of this release."""
    collected = ManifestStaticFilesStorage(location=settings.STATIC_ROOT)
    if not collected.hashed_files:
        yield wrong(
            "static files",
            f"None are collected in {settings.STATIC_ROOT}, so no page can be shown.",
            fix=_COLLECT,
        )
        return
    missing, stale = [], []
    for name, storage, source in _sources():
        known = collected.hashed_files.get(name)
        if known is None:
            missing.append(name)
        elif name.startswith("evalhub/"):
            # Of ours alone: the names of others' files follow from what they refer to.
            with storage.open(source) as file:
                digest = collected.file_hash(name, file)
            if digest is None or digest not in known:
                stale.append(name)
    if missing or stale:
        yield wrong(
            "static files",
            f"What is collected in {settings.STATIC_ROOT} is not this release's:"
            f" {len(missing)} are missing, {len(stale)} are old ({(missing + stale)[0]}).",
            fix=_COLLECT,
        )
    else:
        yield ok("static files", f"{len(collected.hashed_files)} are collected.")


def _sources() -> Iterator[tuple[str, Storage, str]]:
    """Yield each file of this release by the name that pages use, and where it lies."""
    for finder in get_finders():
        for source, storage in finder.list([]):
            prefix = getattr(storage, "prefix", None)
            yield (f"{prefix}/{source}" if prefix else source), storage, source


def time_zones() -> Iterator[Finding]:
    """See whether schedules can be read in people's time zones."""
    try:
        # Anew: what this process has read before says nothing of the data.
        ZoneInfo.no_cache(_A_ZONE)
    except ZoneInfoNotFoundError:
        yield wrong(
            "time zones",
            "The time zone data is not installed: schedules other than in UTC cannot be read.",
            fix="Install the system's package tzdata, or the Python package of this name.",
        )
    else:
        yield ok("time zones", "The time zone data is there.")
