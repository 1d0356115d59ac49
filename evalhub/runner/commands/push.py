"""`evalhub push`: send a spool, or the results of another tool."""

import argparse
import os
from pathlib import Path

from evalhub.protocol.plan import Plan
from evalhub.runner.commands.lane import DEFAULT_SPOOL
from evalhub.runner.connection import connected
from evalhub.runner.console import complain, say
from evalhub.runner.delivery import DeliveryReport
from evalhub.runner.delivery_words import show_delivery
from evalhub.runner.documents import as_document, parsed, read_file
from evalhub.runner.errors import Exit, InputError
from evalhub.runner.following import follow_spools
from evalhub.runner.importers.push import ImportPush, push_results
from evalhub.runner.importers.results import FORMATS
from evalhub.runner.options import wants_json
from evalhub.runner.resume import push_spool
from evalhub.runner.spool_folders import spools_in
from evalhub.runner.stopping import Stop

_DEFAULT_WAIT_SECONDS = 600


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.usage = (
        "evalhub push SPOOL [--follow] | evalhub push --from FORMAT FILE… --plan FILE [--lane NAME]"
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="SPOOL | FILE")
    parser.add_argument(
        "--from", dest="form", choices=FORMATS, help="FILEs are results of this tool"
    )
    parser.add_argument("--plan", type=Path, metavar="FILE", help="the plan built from the results")
    parser.add_argument("--lane", metavar="NAME", help="default: the plan's only lane")
    parser.add_argument(
        "--spool",
        type=Path,
        default=Path(os.environ.get("EVALHUB_SPOOL") or DEFAULT_SPOOL),
        metavar="DIR",
        help="where results wait until they are sent",
    )
    parser.add_argument(
        "--wait",
        type=int,
        default=_DEFAULT_WAIT_SECONDS,
        metavar="SECONDS",
        help="how long to try while the store is away, and to follow what does not grow "
        f"(default {_DEFAULT_WAIT_SECONDS})",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="send SPOOL while it grows, until its lane is over or nothing new comes for --wait",
    )
    parser.set_defaults(handler=push)


def push(options: argparse.Namespace) -> int:
    """Send a spool, every spool of a folder, or the results of another tool."""
    if options.form is not None:
        if options.follow:
            raise InputError("--follow is for a spool; results of another tool are pushed whole.")
        return _push_results(options)
    if len(options.paths) > 1:
        raise InputError(f"{len(options.paths)} spools were given; expected one, or --from.")
    stop = Stop()
    with stop.on_signals():
        if options.follow:
            return _follow(options, stop)
        codes = []
        for spool in spools_in(options.paths[0], report=complain):
            with connected(options) as store:
                report = push_spool(store, spool, seconds=options.wait, stop=stop, report=complain)
            codes.append(_shown(report, options))
    return max(codes)


def _follow(options: argparse.Namespace, stop: Stop) -> int:
    with connected(options) as store:
        reports = follow_spools(
            store, options.paths[0], quiet_seconds=options.wait, stop=stop, report=complain
        )
    return max((_shown(report, options) for report in reports), default=Exit.GOOD)


def _shown(report: DeliveryReport, options: argparse.Namespace) -> int:
    if not wants_json(options):
        say(f"Spool {report.spool}")
    return show_delivery(report, as_json=wants_json(options))


def _push_results(options: argparse.Namespace) -> int:
    if options.plan is None:
        raise InputError(
            "--plan was absent; expected the plan that `evalhub plan build --from-results` made."
        )
    data = read_file(options.plan, what="plan")
    document = parsed(data, path=options.plan, what="plan")
    request = ImportPush(
        plan=as_document(document, Plan, what=f"plan {options.plan}"),
        plan_bytes=data,
        form=options.form,
        paths=options.paths,
        lane=options.lane,
        spool=options.spool,
        seconds=options.wait,
    )
    with connected(options) as store:
        report = push_results(store, request, report=complain)
    return show_delivery(report, as_json=wants_json(options))
