"""`evalhub baseline`: name a plan as what others are compared with."""

import argparse

from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json, table
from evalhub.runner.digests import add_plan_digest, plan_digest
from evalhub.runner.errors import Exit
from evalhub.runner.options import add_command, wants_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    adopt = add_command(commands, "adopt", purpose="adopt a plan, and vouch for it (maintainer)")
    add_plan_digest(adopt)
    adopt.add_argument("--reason", required=True, metavar="TEXT")
    adopt.add_argument("--kind", choices=("rolling", "release"), default="rolling")
    adopt.set_defaults(handler=adopt_plan)
    listed = add_command(commands, "list", purpose="list the baselines of a project")
    listed.add_argument("--project", required=True, metavar="OWNER/NAME")
    listed.set_defaults(handler=list_baselines)


def adopt_plan(options: argparse.Namespace) -> int:
    """Adopt a plan as baseline of its suite."""
    digest = plan_digest(options.digest)
    wanted = {"plan": digest, "kind": options.kind, "reason": options.reason}
    with connected(options) as store:
        project = store.plan(digest)["project"]
        answer = store.adopt(project, wanted)
    if wants_json(options):
        say_json(answer)
    else:
        say(f"Plan {digest} is the {options.kind} baseline of {project} {answer['suite']}.")
    return Exit.GOOD


def list_baselines(options: argparse.Namespace) -> int:
    """List the baselines of a project, the newest adoption first."""
    with connected(options) as store:
        answer = store.baselines(options.project)
    if wants_json(options):
        say_json(answer)
        return Exit.GOOD
    fields = ("suite", "kind", "plan", "adopted_by", "adopted_at", "reason")
    rows = [[row[field] for field in fields] for row in answer["baselines"]]
    say(table(fields, rows) if rows else "There is no baseline yet.")
    return Exit.GOOD
