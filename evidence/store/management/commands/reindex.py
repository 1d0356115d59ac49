"""`manage.py reindex`: make the rows again that can be derived from the object store."""

import json
import sys
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from evalhub.web.errors import DomainError
from evidence.store.operations.findings import Finding, Scope
from evidence.store.operations.plan_rows import Tally
from evidence.store.operations.reindex import NOT_DERIVED, reindex
from lanes.plans import queries as plans_queries
from lanes.projects.queries import projects


class Command(BaseCommand):
    help = (
        "Make every row again that objects tell of and that is absent. Exits 1 if some could not be."
        " Stop web and worker first, or expect that they wait."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", metavar="OWNER/NAME", help="of this project alone")
        parser.add_argument("--plan", metavar="DIGEST", help="of this plan alone, which has a row")
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object a line, the last one sums up"
        )

    def handle(
        self, *args: object, project: str | None, plan: str | None, **options: object
    ) -> None:
        is_json, tally, has_fault = bool(options["json"]), Tally(), False
        try:
            scope = Scope(
                projects.project_named(project) if project else None,
                plans_queries.plan_with_digest(plan) if plan else None,
            )
            for finding in reindex(scope, tally, at=timezone.now()):
                has_fault = has_fault or finding.is_fault
                self.stdout.write(_line(finding, is_json=is_json))
        except DomainError as error:
            raise CommandError(f"{error.detail} {error.fix or ''}".strip()) from error
        self.stdout.write(_summary(tally, is_json=is_json, has_fault=has_fault))
        if has_fault:
            sys.exit(1)


def _line(finding: Finding, *, is_json: bool) -> str:
    return finding.as_json() if is_json else str(finding)


def _summary(tally: Tally, *, is_json: bool, has_fault: bool) -> str:
    made = tally.counts()
    if is_json:
        return json.dumps({"whole": not has_fault, **made})
    if not any(made.values()):
        if has_fault:
            return "No row was made: what is named above stands in the way."
        return "The rows have everything that the objects tell."
    said = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in made.items() if count)
    return "\n".join([f"Made again: {said}.", "Not in the object store:", *NOT_DERIVED])
