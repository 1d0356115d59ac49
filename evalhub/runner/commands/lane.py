"""`evalhub lane run`: run a lane of a plan and send its evidence."""

import argparse
import os
from argparse import REMAINDER
from pathlib import Path

from evalhub.protocol.plan import Plan, PlannedLane
from evalhub.runner.commands.plan_flags import SIMULATORS
from evalhub.runner.connection import connected
from evalhub.runner.console import complain
from evalhub.runner.delivery_words import show_delivery
from evalhub.runner.documents import Loaded, as_document, parsed, read_file
from evalhub.runner.errors import InputError
from evalhub.runner.held_token import with_held_secrets
from evalhub.runner.lane import LaneRequest, run_lane
from evalhub.runner.options import add_command, store_token, wants_json
from evalhub.runner.privacy import keep_private

DEFAULT_SPOOL = Path(".evalhub/spool")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    run = add_command(commands, "run", purpose="start COMMAND once per run key of a lane")
    run.usage = "evalhub lane run --plan FILE --lane NAME [flags] -- COMMAND…"
    run.add_argument("--plan", type=Path, required=True, metavar="FILE")
    run.add_argument("--lane", required=True, metavar="NAME")
    run.add_argument("--jobs", type=int, metavar="N", help="runs at once (default: the plan's)")
    run.add_argument(
        "--spool",
        type=Path,
        default=Path(os.environ.get("EVALHUB_SPOOL") or DEFAULT_SPOOL),
        metavar="DIR",
        help=f"where evidence waits, a folder per attempt (EVALHUB_SPOOL; {DEFAULT_SPOOL})",
    )
    run.add_argument("--simulator", choices=SIMULATORS, help="start a world for this lane alone")
    run.add_argument("--simulator-seed", type=int, default=1, metavar="N")
    run.add_argument(
        "--pass-env",
        action="append",
        default=[],
        metavar="NAME",
        help="let the agent see this variable (a model's API key, say)",
    )
    run.add_argument(
        "--wait",
        type=int,
        default=LaneRequest.opening_seconds,
        metavar="SECONDS",
        help="how long to try to open the attempt while the store is away (default %(default)d)",
    )
    run.add_argument("--progress-file", type=Path, metavar="FILE", help="JSON, written anew often")
    run.add_argument("agent", nargs=REMAINDER, metavar="-- COMMAND…")
    run.set_defaults(handler=run_one)


def run_one(options: argparse.Namespace) -> int:
    """Run one attempt of a lane."""
    keep_private()
    command = options.agent[1:] if options.agent[:1] == ["--"] else options.agent
    if not command:
        raise InputError("The agent's command was absent; expected it after `--`.")
    data = read_file(options.plan, what="plan")
    document = parsed(data, path=options.plan, what="plan")
    plan = as_document(document, Plan, what=f"plan {options.plan}")
    lane = _lane(plan, options.lane)
    jobs = options.jobs if options.jobs is not None else lane.jobs
    if jobs < 1:
        raise InputError(f"--jobs was {jobs}; expected at least 1.")
    request = LaneRequest(
        plan=plan,
        plan_bytes=data,
        lane=lane,
        command=command,
        jobs=jobs,
        spool=options.spool,
        environment=with_held_secrets(os.environ, token=store_token(options)),
        pass_env=options.pass_env,
        simulator=options.simulator,
        simulator_seed=options.simulator_seed,
        progress_file=options.progress_file,
        opening_seconds=options.wait,
    )
    with connected(options) as store:
        report = run_lane(store, request, report=complain)
    return show_delivery(report, as_json=wants_json(options))


def _lane(plan: Loaded[Plan], name: str) -> PlannedLane:
    for lane in plan.model.lanes:
        if lane.name == name:
            return lane
    names = ", ".join(lane.name for lane in plan.model.lanes)
    raise InputError(f"--lane was {name!r}; expected a lane of the plan: {names}.")
