"""`manage.py import_export FILE`: import the archive of a plan that lies on this machine, of any size."""

import json
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from evalhub.protocol.canonical import Digest
from evalhub.web.errors import DomainError
from evidence.store import presentation
from evidence.store.operations import importing
from evidence.store.operations.findings import digest_of
from evidence.store.operations.uploads import Upload
from lanes.projects.operations import audit
from lanes.projects.queries import projects


class Command(BaseCommand):
    help = (
        "Import the archive of a plan, as `evalhub import` does, from a file on this machine: for archives"
        " that are too large or too slow for a request. Web and worker may run."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("archive", type=Path, help="as `evalhub export` wrote it")
        parser.add_argument("--project", required=True, metavar="OWNER/NAME", help="where it goes")

    def handle(self, *args: object, archive: Path, project: str, **options: object) -> None:
        try:
            with archive.open("rb") as file:
                digest, size = digest_of(file)
                imported = importing.import_archive(
                    projects.project_named(project),
                    Upload(file, Digest(digest), size),
                    actor=audit.SYSTEM,
                    at=timezone.now(),
                )
        except OSError as error:
            raise CommandError(f"{archive} cannot be read: {error.strerror}.") from error
        except DomainError as error:
            raise CommandError(f"{error.detail} {error.fix or ''}".strip()) from error
        self.stdout.write(json.dumps(presentation.imported_row(imported), indent=1, default=str))
