"""`manage.py sign_in_link`: print a link that signs the superuser in, once."""

import json
from argparse import ArgumentParser

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse
from django.utils import timezone

from evalhub.web.errors import DomainError
from lanes.projects.operations import sign_in


class Command(BaseCommand):
    help = "Print a link that signs the superuser in, once. The first time, creates that user."
    # They load every page, which takes longer than all else here; CI has run them.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: object, **options: object) -> None:
        try:
            secret = sign_in.create_first_sign_in_link(timezone.now())
        except DomainError as error:
            raise CommandError(f"{error.detail} {error.fix or ''}".strip()) from error
        url = settings.PUBLIC_URL + reverse("sign-in-link", args=[secret])
        self.stdout.write(json.dumps({"url": url}) if options["json"] else url)
