"""`evalhub runs`: the runs of a plan."""

import argparse

from evalhub.runner.client import Store
from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json, table
from evalhub.runner.digests import add_plan_digest, plan_digest
from evalhub.runner.documents import JsonObject
from evalhub.runner.errors import Exit
from evalhub.runner.options import wants_json

_PAGE = 500
_FILTERS = ("outcome", "arm", "lane", "scenario", "category")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_plan_digest(parser)
    for name in _FILTERS:
        parser.add_argument(f"--{name}", metavar="VALUE")
    parser.set_defaults(handler=runs)


def runs(options: argparse.Namespace) -> int:
    """List all runs of a plan that match."""
    wanted = {name: getattr(options, name) for name in _FILTERS if getattr(options, name)}
    digest = plan_digest(options.digest)
    with connected(options) as store:
        found = _all_runs(store, {"plan": digest, **wanted})
    if wants_json(options):
        say_json({"runs": found})
        return Exit.GOOD
    rows = [
        [
            run["id"],
            run["scenario"],
            run["arm"],
            run["epoch"],
            run["lane"],
            run["outcome"],
            run["duration_ms"],
            ", ".join(f"{name} {value}" for name, value in sorted(run["scores"].items())) or None,
        ]
        for run in found
    ]
    headers = ("run", "scenario", "arm", "epoch", "lane", "outcome", "ms", "scores")
    say(table(headers, rows) if rows else "No run matches.")
    return Exit.GOOD


def _all_runs(store: Store, wanted: dict[str, str]) -> list[JsonObject]:
    found: list[JsonObject] = []
    after: int | None = None
    while True:
        place = {} if after is None else {"after": after}
        page = store.runs({**wanted, **place, "limit": _PAGE})
        found += page["runs"]
        after = page["next"]
        if after is None:
            return found
