"""`evalhub storage`: what a project has stored, and for how long it is kept."""

import argparse

from evalhub.protocol.canonical import canonical_bytes
from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json, table
from evalhub.runner.documents import JsonObject
from evalhub.runner.errors import Exit, InputError
from evalhub.runner.options import add_command, wants_json

_FOR_GOOD = "for-good"
_NAMES = ("record_days", "bulk_days")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    show = add_command(commands, "show", purpose="show what a project has stored")
    show.add_argument("--project", required=True, metavar="OWNER/NAME")
    show.set_defaults(handler=show_storage)
    keep = add_command(
        commands, "keep", purpose="say for how many days evidence is kept (maintainer)"
    )
    keep.add_argument("--project", required=True, metavar="OWNER/NAME")
    days = f"a number of days, or {_FOR_GOOD}; as it is, if not given"
    keep.add_argument("--bulk", metavar="DAYS", help=f"transcripts, logs and files: {days}")
    keep.add_argument("--records", metavar="DAYS", help=f"results, judge calls: {days}")
    keep.add_argument("--yes", action="store_true", help="do it, instead of saying what would go")
    keep.set_defaults(handler=keep_for)


def show_storage(options: argparse.Namespace) -> int:
    """Show what is stored, by class."""
    with connected(options) as store:
        answer = store.storage(options.project)
    if wants_json(options):
        say_json(answer)
        return Exit.GOOD
    fields = ("class", "segments", "size_bytes", "removed_segments", "removed_bytes")
    say(table(fields, [[row[field] for field in fields] for row in answer["classes"]]))
    say(f"{_kept(answer['retention'])} Pinned plans: {answer['pinned_plans']}.")
    return Exit.GOOD


def keep_for(options: argparse.Namespace) -> int:
    """Change for how long evidence is kept, or say what would go."""
    with connected(options) as store:
        wanted = dict(store.storage(options.project)["retention"])
        for name, given in zip(_NAMES, (options.records, options.bulk), strict=True):
            if given is not None:
                wanted[name] = _days(given)
        body = canonical_bytes({**wanted, "dry_run": not options.yes})
        answer = store.put_retention(options.project, body)
    if wants_json(options):
        say_json(answer)
        return Exit.GOOD
    for row in answer["due"]:
        say(
            f"{row['size_bytes']} bytes of {row['class']} go: {row['segments']} segments of"
            f" {row['plans']} plans."
        )
    if not answer["due"]:
        say("Nothing goes now.")
    say(_kept(answer["after"]) if options.yes else "Nothing was changed; --yes does it.")
    return Exit.GOOD


def _days(text: str) -> int | None:
    if text == _FOR_GOOD:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        raise InputError(f"The days were {text[:40]!r}; expected a number or {_FOR_GOOD}.")
    return int(text)


def _kept(retention: JsonObject) -> str:
    record, bulk = (
        "for good" if retention[name] is None else f"for {retention[name]} days" for name in _NAMES
    )
    return f"Records are kept {record}; transcripts, logs and files {bulk}."
