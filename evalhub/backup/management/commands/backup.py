"""`manage.py backup FOLDER`: the database and all objects, while evalhub runs."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from evalhub.backup.making import make_backup
from evalhub.backup.manifest import BackupError
from evalhub.backup.objects import shortened


class Command(BaseCommand):
    """Make a backup, or bring one up to date."""

    help = "Back up the database and all objects into a folder, while evalhub runs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="of its own; what it has is not copied again")

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["folder"].absolute()
        try:
            made = make_backup(folder, at=timezone.now())
        except BackupError as error:
            raise CommandError(str(error)) from error
        manifest = made.manifest
        self.stdout.write(
            f"{folder}: {sum(manifest.rows.values())} rows in {len(manifest.rows)} tables, "
            f"{manifest.object_count} objects of {filesizeformat(manifest.object_bytes)}, "
            f"{made.copied} of them copied now."
        )
        if manifest.faults:
            raise CommandError(
                f"The backup is made, but {len(manifest.faults)} objects of stored evidence are "
                f"absent or damaged in the object store: {shortened(sorted(manifest.faults))}. Take "
                "them from an older backup."
            )
