"""`evalhub plans`: the newest plans of the token's project."""

import argparse

from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json, table
from evalhub.runner.errors import Exit
from evalhub.runner.options import wants_json

_HEADERS = ("plan", "project", "suite", "event", "commit", "runs", "state", "registered")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument("--suite", metavar="NAME")
    parser.add_argument("--workflow-run-id", type=int, metavar="N")
    parser.add_argument("--limit", type=int, default=20, metavar="N")
    parser.set_defaults(handler=plans)


def plans(options: argparse.Namespace) -> int:
    """List plans, newest first."""
    wanted = {
        "limit": options.limit,
        "suite": options.suite,
        "workflow_run_id": options.workflow_run_id,
    }
    with connected(options) as store:
        answer = store.plans({k: v for k, v in wanted.items() if v is not None})
    if wants_json(options):
        say_json(answer)
        return Exit.GOOD
    rows = [
        [
            plan["digest"],
            plan["project"],
            plan["suite"],
            plan["event"],
            (plan["head_sha"] or "")[:12] or None,
            plan["runs"],
            plan["state"],
            plan["registered_at"],
        ]
        for plan in answer["plans"]
    ]
    say(table(_HEADERS, rows) if rows else "There is no plan yet.")
    return Exit.GOOD
