"""`evalhub schedule`: the nightlies that a project waits for."""

import argparse

from evalhub.protocol.canonical import canonical_bytes
from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json, table
from evalhub.runner.errors import Exit
from evalhub.runner.options import add_command, wants_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    put = add_command(commands, "put", purpose="say when a suite's nightly is due (maintainer)")
    _add_suite(put)
    put.add_argument(
        "--cron",
        required=True,
        metavar='"M H DOM MON DOW"',
        help='five fields, such as "0 3 * * *"',
    )
    put.add_argument(
        "--timezone", default="UTC", metavar="NAME", help="in which the hours count (UTC)"
    )
    put.add_argument(
        "--grace-minutes",
        type=int,
        default=120,
        metavar="N",
        help="how late its plan may be registered (120)",
    )
    put.add_argument("--paused", action="store_true", help="keep it, and do not wait for it")
    put.set_defaults(handler=put_schedule)
    listed = add_command(commands, "list", purpose="list what a project waits for, and what came")
    listed.add_argument("--project", required=True, metavar="OWNER/NAME")
    listed.set_defaults(handler=list_schedules)
    remove = add_command(commands, "remove", purpose="wait for a nightly no more (maintainer)")
    _add_suite(remove)
    remove.set_defaults(handler=remove_schedule)


def put_schedule(options: argparse.Namespace) -> int:
    """Set when the nightly of a suite is due."""
    body = {
        "cron": options.cron,
        "timezone": options.timezone,
        "grace_minutes": options.grace_minutes,
        "paused": options.paused,
    }
    with connected(options) as store:
        answer = store.put_schedule(options.project, options.suite, canonical_bytes(body))
    if wants_json(options):
        say_json(answer)
    elif answer["paused"]:
        say(f"The schedule of {options.suite} is kept and not waited for.")
    else:
        say(
            f"A plan of {options.suite} with the event schedule is due next at"
            f" {answer['next_due_at']}, at most {answer['grace_minutes']} minutes late."
        )
    return Exit.GOOD


def list_schedules(options: argparse.Namespace) -> int:
    """List the nightlies that a project waits for."""
    with connected(options) as store:
        answer = store.schedules(options.project)
    if wants_json(options):
        say_json(answer)
        return Exit.GOOD
    fields = ("suite", "state", "cron", "timezone", "last_due_at", "last_seen_at", "next_due_at")
    rows = [[row[field] for field in fields] for row in answer["schedules"]]
    say(table(fields, rows) if rows else "No nightly is waited for.")
    return Exit.GOOD


def remove_schedule(options: argparse.Namespace) -> int:
    """Stop waiting for the nightly of a suite."""
    with connected(options) as store:
        store.remove_schedule(options.project, options.suite)
    if wants_json(options):
        say_json({"removed": options.suite})
    else:
        say(f"Nobody waits for a nightly of {options.suite} any more.")
    return Exit.GOOD


def _add_suite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", metavar="SUITE", help="the suite's name")
    parser.add_argument("--project", required=True, metavar="OWNER/NAME")
