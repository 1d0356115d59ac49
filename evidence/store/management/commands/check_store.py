"""`manage.py check_store`: read and hash every object, and name what is damaged, missing or extra."""

import json
import sys
from argparse import ArgumentParser
from collections import Counter

from django.core.management.base import BaseCommand, CommandError

from evalhub.web.errors import DomainError
from evidence.store.operations.check_store import Looked, store_findings
from evidence.store.operations.findings import Finding, Grade, Scope
from lanes.plans import queries as plans_queries
from lanes.projects.queries import projects

_ADVICE = (
    (
        {Grade.DAMAGED, Grade.MISSING},
        "Put segments back from a backup or another copy of the store; documents are written again"
        " from the rows with --mend.",
    ),
    ({Grade.UNINDEXED}, "What the rows do not know, `manage.py reindex` makes again."),
    (
        {Grade.RETURNED},
        "What was removed on purpose goes again with --mend; find out who put it back.",
    ),
    (
        {Grade.EXTRA},
        "Extra objects harm nothing: an upload was broken off, or others put them there.",
    ),
)


class Command(BaseCommand):
    help = (
        "Read and hash every object; name what is damaged, missing or extra. Exits 1 if any is wrong. Of a"
        " store that `manage.py generate` made only the newest 200 plans have objects: those of all others"
        " are told as missing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", metavar="OWNER/NAME", help="of this project alone")
        parser.add_argument("--plan", metavar="DIGEST", help="of this plan alone")
        parser.add_argument(
            "--mend",
            action="store_true",
            help="write documents that the rows hold whole (receipts, seals, plans) again",
        )
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object a line, the last one sums up"
        )

    def handle(
        self,
        *args: object,
        project: str | None,
        plan: str | None,
        mend: bool,
        **options: object,
    ) -> None:
        is_json, looked, told = bool(options["json"]), Looked(), Counter[Grade]()
        has_fault = False
        try:
            scope = Scope(
                projects.project_named(project) if project else None,
                plans_queries.plan_with_digest(plan) if plan else None,
            )
            for finding in store_findings(scope, looked=looked, mend=mend):
                told[finding.grade] += 1
                has_fault = has_fault or finding.is_fault
                self.stdout.write(_line(finding, is_json=is_json))
        except DomainError as error:
            raise CommandError(f"{error.detail} {error.fix or ''}".strip()) from error
        self.stdout.write(_summary(looked, told, is_json=is_json, has_fault=has_fault))
        if has_fault:
            sys.exit(1)


def _line(finding: Finding, *, is_json: bool) -> str:
    return finding.as_json() if is_json else str(finding)


def _summary(looked: Looked, told: Counter[Grade], *, is_json: bool, has_fault: bool) -> str:
    counts = {grade.value: told[grade] for grade in Grade}
    if is_json:
        return json.dumps({"sound": not has_fault, **vars(looked), **counts})
    lines = [
        f"{looked.plans} plans, {looked.objects} objects, {looked.bytes} bytes were looked at."
    ]
    if looked.removed:
        lines[0] += f" {looked.removed} segments were purged or removed because of their age."
    if not told:
        return f"{lines[0]} Each is what its row says."
    lines.append(f"{', '.join(f'{count} {word}' for word, count in counts.items() if count)}.")
    lines += [advice for grades, advice in _ADVICE if any(told[grade] for grade in grades)]
    return "\n".join(lines)
