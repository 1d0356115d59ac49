"""`manage.py trust_publisher OWNER/NAME`: let a workflow's CI jobs speak for a project."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from pydantic import ValidationError

from evalhub.protocol.identity import PublisherSettings
from evalhub.web.errors import DomainError
from lanes.projects.operations import publishers
from lanes.projects.queries import projects
from lanes.projects.queries import publishers as publisher_queries


class Command(BaseCommand):
    help = "Trust a workflow of a project's repository (or trust it no longer); list those trusted."
    # They load every page, which takes longer than all else here; CI has run them.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="OWNER/NAME")
        parser.add_argument("--repository-id", type=int, metavar="N", help="default: the project's")
        parser.add_argument(
            "--owner-id", type=int, metavar="N", help="id of the repository's owner"
        )
        parser.add_argument("--workflow", metavar="FILE", help=".github/workflows/FILE.yml")
        parser.add_argument("--reusable-workflow", default="", metavar="OWNER/REPO/PATH@REF")
        parser.add_argument("--environment", default="", metavar="NAME")
        parser.add_argument(
            "--ref",
            action="append",
            default=[],
            dest="refs",
            metavar="PATTERN",
            help="refs/heads/main or refs/pull/*/merge; again for more; none: every ref",
        )
        parser.add_argument(
            "--may-put-documents",
            action="store_true",
            help="suite and policy too, from the protected default branch",
        )
        parser.add_argument("--remove", type=int, metavar="NUMBER", help="trust it no longer")

    def handle(self, *args: object, name: str, **options: Any) -> None:
        try:
            self._act(name, options)
        except DomainError as error:
            raise CommandError(" ".join(filter(None, [error.detail, error.fix]))) from error

    def _act(self, name: str, options: dict[str, Any]) -> None:
        project = projects.project_named(name)
        if options["remove"] is not None:
            found = publisher_queries.publisher_numbered(project, options["remove"])
            publishers.remove_publisher(found, at=timezone.now())
        elif options["workflow"] is not None:
            wanted = _settings(options, default_id=project.repository_id)
            publishers.trust_publisher(project, wanted, at=timezone.now())
        for row in publisher_queries.publishers_of(project):
            where = ", ".join(row.refs) or "every ref"
            self.stdout.write(f"{row.pk}: {row}, {where}")


def _settings(options: dict[str, Any], *, default_id: int | None) -> PublisherSettings:
    names = set(PublisherSettings.model_fields) & set(options)
    try:
        return PublisherSettings(
            **{
                **{name: options[name] for name in names},
                "repository_id": options["repository_id"] or default_id,
                "repository_owner_id": options["owner_id"],
            }
        )
    except ValidationError as error:
        fault = error.errors()[0]
        raise CommandError(
            f"--{str(fault['loc'][0]).replace('repository_owner_id', 'owner-id').replace('_', '-')}"
            f" was {fault['input']!r}; {fault['msg'].lower()}."
        ) from error
