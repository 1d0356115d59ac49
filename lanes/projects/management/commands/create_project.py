"""`manage.py create_project OWNER/NAME`: create a project and print its first token."""

import json
from argparse import ArgumentParser

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from evalhub.web.errors import DomainError
from lanes.projects.models import Scope
from lanes.projects.operations import projects


class Command(BaseCommand):
    help = "Create a project and print its first token (project:admin), which is shown once."
    # They load every page, which takes longer than all else here; CI has run them.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="OWNER/NAME")
        parser.add_argument("--repository-id", type=int, metavar="N", help="GitHub's number for it")
        parser.add_argument("--default-branch", default="main", metavar="BRANCH")
        parser.add_argument(
            "--checks-for-unverified",
            action="store_true",
            help="write checks for plans that a static token registered",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(
        self,
        *args: object,
        name: str,
        repository_id: int | None,
        default_branch: str,
        checks_for_unverified: bool,
        **options: object,
    ) -> None:
        try:
            created = projects.create_project(
                name,
                repository_id=repository_id,
                default_branch=default_branch,
                checks_for_unverified=checks_for_unverified,
                at=timezone.now(),
            )
        except DomainError as error:
            raise CommandError(error.detail) from error
        if options["json"]:
            answer = {"project": name, "token": created.secret, "scopes": [Scope.PROJECT_ADMIN]}
            self.stdout.write(json.dumps(answer))
            return
        self.stdout.write(
            f"Project {name} is there. Its first token (project:admin), shown once and"
            f" good for {settings.TOKEN_DAYS} days:"
        )
        self.stdout.write(created.secret)
