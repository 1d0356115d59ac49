"""Pack what a release leaves behind, with its own code: run it in a checkout of that release.

    EVALHUB_DATA=/some/demo python /here/tests/releases/pack_release.py 0.2.0 TOKEN OUT.tar.xz

The data directory is one of `manage.py demo --once`, best with a smaller suite and what else may lie
there: a refusal, a pool, a member, a session. TOKEN is the one that `demo/kept.json` holds.
"""

import hashlib
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import django

if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "evalhub.settings")
    django.setup()

from django.apps import apps
from django.conf import settings
from django.db.migrations.recorder import MigrationRecorder

# Made by `migrate` itself, with other keys in each database.
_NOT_DATA = {"contenttypes.contenttype", "auth.permission"}


def migrations() -> list[tuple[str, str, str | None]]:
    found = MigrationRecorder.Migration.objects.order_by("pk").values_list("app", "name")
    return [(app, name, digest_of(app, name)) for app, name in found]


def digest_of(app: str, name: str) -> str | None:
    """Return the digest of a migration's file, None where it is not ours."""
    path = Path(apps.get_app_config(app).path) / "migrations" / f"{name}.py"
    is_ours = path.is_relative_to(settings.BASE_DIR) and ".venv" not in path.parts
    return hashlib.sha256(path.read_bytes()).hexdigest() if is_ours else None


def tables() -> list[dict[str, Any]]:
    found = []
    for model in apps.get_models(include_auto_created=True):
        if model._meta.label_lower not in _NOT_DATA and model._meta.managed:
            names = [field.attname for field in model._meta.concrete_fields]
            rows = list(model._default_manager.order_by("pk").values(*names))
            if rows:
                found.append({"model": model._meta.label_lower, "rows": rows})
    return found


def plain_value(value: Any) -> str:
    """Write times with all their digits, and identifiers as text."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def main(version: str, token: str, archive: str) -> None:
    document = {"release": version, "token": token, "migrations": migrations(), "tables": tables()}
    rows = Path(archive).with_suffix(".rows.json")
    rows.write_text(json.dumps(document, indent=1, default=plain_value))
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        tar.add(rows, "rows.json")
        tar.add(settings.OBJECTS_DIR, "objects", filter=_wanted)
    rows.unlink()


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if ".incoming" in member.name else member


if __name__ == "__main__":
    main(*sys.argv[1:])
