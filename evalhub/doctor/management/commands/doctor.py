"""`manage.py doctor`: what is misconfigured, in sentences."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from evalhub.doctor import examination, report


class Command(BaseCommand):
    """Look at everything that can be misconfigured; end with 1 if something is wrong.

    Changes nothing: what it writes to see whether it can is taken back.
    """

    help = "Say what is misconfigured, and how to mend it. Ends with 1 if something is wrong."
    # It has its own, which say what to do, and it must run where those would stop it.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        found = list(examination.findings(clock=timezone.now))
        sys.exit(report.write(found, self.stdout.write, as_json=options["json"]))
