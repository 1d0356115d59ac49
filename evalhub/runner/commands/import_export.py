"""`evalhub import`: a plan of another evalhub, from the archive that `evalhub export` made of it."""

import argparse
import hashlib
from pathlib import Path

from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json
from evalhub.runner.documents import JsonObject
from evalhub.runner.errors import Exit, InputError
from evalhub.runner.options import wants_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument("archive", metavar="ARCHIVE", help="as `evalhub export` wrote it")
    parser.add_argument(
        "--project", required=True, metavar="OWNER/NAME", help="that the token belongs to"
    )
    parser.set_defaults(handler=import_export)


def import_export(options: argparse.Namespace) -> int:
    """Send the archive. It is looked at there, and taken whole or not at all."""
    try:
        with Path(options.archive).open("rb") as file, connected(options) as store:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            answer = store.import_archive(options.project, file, sha256=digest)
    except OSError as error:
        raise InputError(f"{options.archive} cannot be read: {error.strerror}.") from None
    if wants_json(options):
        say_json(answer)
    else:
        say(_told(answer))
    return Exit.GOOD


def _told(answer: JsonObject) -> str:
    origin = answer.get("origin") or {}
    where = f" at {origin['instance']}" if origin.get("instance") else ""
    what = "is imported" if answer.get("new") else "was imported before, with all that this tells"
    lines = [
        f"Plan {answer['digest']} of {origin.get('project')}{where} {what}:"
        f" {answer['segments']} segments, {answer['runs']} runs.",
        "It is foreign here: to be read, without a check, money or a say in anything.",
        f"{answer['url']}",
    ]
    if origin.get("state") not in {"concluded", None}:
        lines.insert(
            1, f"When it was exported it was {origin['state']}: a later archive may tell more."
        )
    return "\n".join(lines)
