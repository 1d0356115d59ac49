"""`manage.py restore FOLDER`: fill an empty installation from a backup."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from evalhub.backup.manifest import BackupError
from evalhub.backup.objects import shortened
from evalhub.backup.restoring import check_backup, restore_backup


class Command(BaseCommand):
    """Restore a backup, or look whether that would do."""

    help = "Restore a backup into an empty database and an empty object store."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="as `manage.py backup` made it")
        parser.add_argument(
            "--check", action="store_true", help="only read the backup and compare its digests"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["folder"].absolute()
        try:
            manifest = check_backup(folder) if options["check"] else restore_backup(folder)
        except BackupError as error:
            raise CommandError(str(error)) from error
        done = "is sound" if options["check"] else "is restored"
        self.stdout.write(
            f"The backup of {manifest.made_at:%Y-%m-%d %H:%M} UTC {done}: "
            f"{sum(manifest.rows.values())} rows, {manifest.object_count} objects."
        )
        if manifest.faults:
            self.stderr.write(
                f"When it was made, {len(manifest.faults)} objects were absent or damaged: "
                f"{shortened(sorted(manifest.faults))}."
            )
