"""`evalhub pin`, `evalhub unpin`: keep a plan's evidence whatever its age."""

import argparse

from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json
from evalhub.runner.errors import Exit
from evalhub.runner.options import add_command, wants_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    put = add_command(commands, "set", purpose="keep a plan's evidence (maintainer)")
    put.add_argument("plan", metavar="DIGEST")
    put.add_argument("--reason", required=True, metavar="TEXT")
    put.set_defaults(handler=pin)
    remove = add_command(commands, "remove", purpose="let it have its age again (maintainer)")
    remove.add_argument("plan", metavar="DIGEST")
    remove.set_defaults(handler=unpin)


def pin(options: argparse.Namespace) -> int:
    """Keep the evidence of a plan."""
    with connected(options) as store:
        answer = store.pin(options.plan, {"reason": options.reason})
    if wants_json(options):
        say_json(answer)
    else:
        say("The evidence of the plan is kept until it is unpinned.")
    return Exit.GOOD


def unpin(options: argparse.Namespace) -> int:
    """Let the evidence of a plan have its age again."""
    with connected(options) as store:
        answer = store.unpin(options.plan)
    if wants_json(options):
        say_json(answer)
    else:
        others = [row["holder"] for row in answer["pins"]]
        say("The plan is unpinned." + (f" Still needed by {', '.join(others)}." if others else ""))
    return Exit.GOOD
