"""`manage.py generate`: fill a store that is to be thrown away with as many runs as wanted."""

import time
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from evalhub.growth import operations
from evalhub.web.errors import DomainError

# Room for the year before it, and for deadlines after it.
_FIRST_YEAR, _LAST_YEAR = 1971, 9000


class Command(BaseCommand):
    help = (
        "Write a made-up year of plans with all their evidence straight into the database, past the"
        " checks of intake, to see how evalhub does with a store of that size. For a store that is"
        " thrown away: nothing tells these projects from real ones, and nothing removes them."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--runs", type=int, required=True, help=f"1 to {operations.LARGEST} runs"
        )
        parser.add_argument(
            "--seed", type=int, default=1, help="0 to 1000000; equal seeds give equal stores"
        )
        parser.add_argument("--projects", type=int, default=4, help="1 to 100, two suites in each")
        parser.add_argument("--until", help="the day on which the year ends; today unless given")
        parser.add_argument(
            "--add",
            action="store_true",
            help="also into a store in use: what was generated before grows by another seed",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        for name, least, most in [
            ("runs", 1, operations.LARGEST),
            ("seed", 0, 1_000_000),
            ("projects", 1, 100),
        ]:
            if not least <= options[name] <= most:
                raise CommandError(f"--{name} takes a number from {least} to {most}.")
        began = time.monotonic()
        try:
            if not options["add"]:
                operations.refuse_used_store()
            written = operations.generate_store(
                runs=options["runs"],
                seed=options["seed"],
                projects=options["projects"],
                until=_until(options["until"]),
                report=lambda done: self._tell(done, options["runs"], began),
            )
        except DomainError as error:
            raise CommandError(f"{error} {error.fix or ''}") from error
        for table, count in written.items():
            self.stdout.write(f"{count:>12,} {table}")
        self.stdout.write(f"Written in {time.monotonic() - began:.0f} s; every table was counted.")

    def _tell(self, done: int, runs: int, began: float) -> None:
        rate = done / (time.monotonic() - began)
        self.stderr.write(f"{done:,} of {runs:,} runs, {rate:,.0f} a second")


def _until(day: str | None) -> datetime:
    if day is None:
        return timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        until = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise CommandError(f"--until was {day!r}; it takes a day like 2026-11-29.") from None
    if not _FIRST_YEAR <= until.year <= _LAST_YEAR:
        raise CommandError(
            f"--until was {day!r}; it takes a day of the years {_FIRST_YEAR} to {_LAST_YEAR}."
        )
    return until
