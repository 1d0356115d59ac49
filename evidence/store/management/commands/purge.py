"""`manage.py purge`: remove bytes of a plan for good, on the word of whoever runs the server."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from evalhub.web.errors import DomainError
from evidence.store import queries
from evidence.store.models import Removal
from evidence.store.operations import purging, removals
from evidence.store.operations.purging import Preview, Target
from lanes.plans import queries as plans_queries
from lanes.projects.operations import audit


class Command(BaseCommand):
    help = "Remove bytes of a plan for good; rows, receipts and tombstones stay. Says what would go first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("plan", metavar="DIGEST")
        parser.add_argument("--attempt", metavar="KEY", help="what came of this attempt alone")
        parser.add_argument(
            "--segment", type=int, metavar="SEQ", help="this segment of the attempt alone"
        )
        parser.add_argument(
            "--run", type=int, metavar="ID", help="the segments with evidence of this run"
        )
        parser.add_argument("--reason", required=True, metavar="TEXT", help="shown where it was")
        parser.add_argument("--even-pinned", action="store_true", help="although somebody needs it")
        parser.add_argument(
            "--yes", action="store_true", help="do it, instead of saying what would go"
        )

    def handle(self, *args: object, plan: str, reason: str, **options: object) -> None:
        try:
            target = _target(plan, options)
            if not options["yes"]:
                told = purging.preview(target)
                self.stdout.write(_told(told, even_pinned=bool(options["even_pinned"])))
                return
            removal = purging.purge(
                target,
                reason=reason,
                even_pinned=bool(options["even_pinned"]),
                actor=audit.SYSTEM,
                at=timezone.now(),
            )
            gone = _carried_out(removal)
        except DomainError as error:
            raise CommandError(f"{error.detail} {error.fix or ''}".strip()) from error
        self.stdout.write(f"{gone} segments with {removal.size_bytes} bytes are gone.")


def _target(digest: str, options: dict[str, object]) -> Target:
    plan = plans_queries.plan_with_digest(digest)
    attempt, segment, run = (options[name] for name in ("attempt", "segment", "run"))
    if run is not None and attempt is not None:
        raise CommandError("--run and --attempt were both given; expected one of them.")
    if segment is not None and attempt is None:
        raise CommandError("--segment was given without --attempt, whose segment it is.")
    if isinstance(run, int):
        found = queries.run_with_id(run)
        if found.plan_id != plan.pk:
            raise CommandError(f"Run {run} is not of plan {digest}.")
        return purging.one_run(found)
    if isinstance(segment, int):
        return purging.one_segment(plan, str(attempt), segment)
    return purging.one_attempt(plan, str(attempt)) if attempt else purging.whole_plan(plan)


def _carried_out(removal: Removal) -> int:
    """Carry the order out here: whoever runs the server need not wait for a worker."""
    gone = 0
    while more := removals.carry_out(removal, most=removals.AT_ONCE, at=timezone.now()):
        gone += more
    return gone


def _told(told: Preview, *, even_pinned: bool) -> str:
    order = "--yes --even-pinned" if told.pins and not even_pinned else "--yes"
    lines = [
        f"{told.sums.segments} segments with {told.sums.size_bytes} bytes would go, with evidence of"
        f" {told.runs} runs; {told.records} hold records.",
        *(f"Needed by {pin}" for pin in told.pins),
        f"Nothing was removed; {order} does it.",
    ]
    return "\n".join(lines)
