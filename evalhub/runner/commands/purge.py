"""`evalhub purge`: remove bytes of a plan for good; what was scored stays."""

import argparse
import time

from evalhub.runner.client import Store
from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json
from evalhub.runner.documents import JsonObject
from evalhub.runner.errors import Exit, InputError
from evalhub.runner.options import wants_json

_LOOK_EVERY_SECONDS = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("plan", metavar="DIGEST")
    parser.add_argument("--attempt", metavar="KEY", help="what came of this attempt alone")
    parser.add_argument(
        "--segment", type=int, metavar="SEQ", help="this segment of the attempt alone"
    )
    parser.add_argument(
        "--run", type=int, metavar="ID", help="the segments with evidence of this run"
    )
    parser.add_argument("--reason", required=True, metavar="TEXT", help="shown where it was")
    parser.add_argument(
        "--even-pinned", action="store_true", help="although somebody needs the plan"
    )
    parser.add_argument("--yes", action="store_true", help="do it, instead of saying what would go")
    parser.add_argument(
        "--wait", type=int, default=60, metavar="SECONDS", help="until the bytes are gone (60)"
    )
    parser.set_defaults(handler=purge)


def purge(options: argparse.Namespace) -> int:
    """Have bytes removed, or say which would be."""
    body = _body(options)
    with connected(options) as store:
        answer = store.purge(options.plan, body)
        if options.yes:
            answer = _waited_for(store, options.plan, answer, seconds=options.wait)
    if wants_json(options):
        say_json(answer)
        return Exit.GOOD
    what = f"{answer['segments']} segments with {answer['size_bytes']} bytes"
    if not options.yes:
        say(
            f"{what} would go, with evidence of {answer['runs']} run{'' if answer['runs'] == 1 else 's'}."
        )
        if answer["records"]:
            say(f"{answer['records']} hold records: the conclusion can then not be recomputed.")
        for pin in answer["pins"]:
            say(f"Needed by {pin}")
        order = "--yes --even-pinned" if answer["pins"] and not options.even_pinned else "--yes"
        say(f"Nothing was removed; {order} does it.")
    elif answer["finished_at"] is None:
        say(f"{what} are being removed; nobody is given them any more.")
    else:
        say(f"{what} are gone.")
    return Exit.GOOD


def _body(options: argparse.Namespace) -> JsonObject:
    if options.segment is not None and options.attempt is None:
        raise InputError("--segment was given without --attempt, whose segment it is.")
    if options.run is not None and options.attempt is not None:
        raise InputError("--run and --attempt were both given; expected one of them.")
    scope = "plan"
    if options.attempt is not None:
        scope = "attempt" if options.segment is None else "segment"
    elif options.run is not None:
        scope = "run"
    return {
        "scope": scope,
        "attempt": options.attempt,
        "seq": options.segment,
        "run": options.run,
        "reason": options.reason,
        "even_pinned": options.even_pinned,
        "dry_run": not options.yes,
    }


def _waited_for(store: Store, plan: str, ordered: JsonObject, *, seconds: int) -> JsonObject:
    until = time.monotonic() + seconds
    while ordered["finished_at"] is None and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_SECONDS)
        for row in store.purges(plan)["removals"]:
            if row["removal"] == ordered["removal"]:
                ordered = row
    return ordered
