"""`evalhub plan`: build, check, register, close, reopen, cancel."""

import argparse
import os
from collections import Counter
from pathlib import Path

from evalhub.protocol.canonical import document_digest
from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Policy
from evalhub.protocol.refusals import BaseSuite
from evalhub.protocol.suite import Suite
from evalhub.runner import clock, planning
from evalhub.runner.commands import plan_flags
from evalhub.runner.connection import can_connect, connected
from evalhub.runner.console import complain, say, say_json, table
from evalhub.runner.digests import add_plan_digest, plan_digest
from evalhub.runner.documents import (
    JsonObject,
    read_document,
    read_file,
    read_json,
    write_document,
)
from evalhub.runner.errors import Exit
from evalhub.runner.importers import results
from evalhub.runner.options import add_command, wants_json
from evalhub.runner.reuse import plan_of_workflow_run
from evalhub.runner.visibility import too_small_words


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    build = add_command(commands, "build", purpose="make a plan from suite, policy and flags")
    plan_flags.add_build_flags(build)
    build.set_defaults(handler=build_plan)
    check = add_command(commands, "check", purpose="say whether a plan would be registered")
    check.add_argument("file", type=Path, metavar="FILE", help="the plan")
    check.add_argument("--policy", type=Path, required=True, metavar="FILE")
    check.add_argument("--suite", type=Path, metavar="FILE", help="the base branch's suite")
    check.set_defaults(handler=check_plan)
    register = add_command(commands, "register", purpose="register a plan at the store")
    register.add_argument("file", type=Path, metavar="FILE", help="the plan")
    register.set_defaults(handler=register_plan)
    close = add_command(commands, "close", purpose="decide now, with what has arrived")
    add_plan_digest(close)
    close.set_defaults(handler=close_plan)
    reopen = add_command(commands, "reopen", purpose="wait for the lanes again, after a close")
    add_plan_digest(reopen)
    reopen.set_defaults(handler=reopen_plan)
    cancel = add_command(commands, "cancel", purpose="end a plan that nobody waits for any more")
    add_plan_digest(cancel)
    cancel.add_argument("--reason", required=True, metavar="WORDS", help="kept, and shown")
    cancel.set_defaults(handler=cancel_plan)


def build_plan(options: argparse.Namespace) -> int:
    """Write `plan.json`; for the results of another tool also the suite and a policy."""
    if options.from_results:
        imported = plan_flags.import_request(options, environment=os.environ)
        built = results.build_plan(imported, at=clock.now())
    else:
        request = plan_flags.plan_request(options, environment=os.environ)
        kept = _reusable(options, request)
        if kept is not None:
            return _reused(options, kept)
        built = planning.build_plan(request, at=clock.now())
    write_document(options.out, built.document)
    for note in built.notes:
        complain(note)
    if wants_json(options):
        say_json({**_summary(built.plan), "digest": built.digest, "reused": False})
    else:
        say(f"{_lanes_table(built.plan)}\nPlan {built.digest} is in {options.out}")
    return Exit.GOOD


def _reusable(options: argparse.Namespace, request: planning.PlanRequest) -> JsonObject | None:
    workflow_run = request.source.get("workflow_run_id")
    if workflow_run is None or options.no_reuse:
        return None
    if not can_connect(options):
        return None
    with connected(options) as store:
        return plan_of_workflow_run(
            store, request.project, suite=request.suite.model.name, run=workflow_run
        )


def _reused(options: argparse.Namespace, document: JsonObject) -> int:
    write_document(options.out, document)
    digest = document_digest(document)
    if wants_json(options):
        plan = read_document(options.out, Plan, what="plan").model
        say_json({**_summary(plan), "digest": digest, "reused": True})
    else:
        say(f"This workflow run has a plan already; it is reused: {digest} is in {options.out}")
    return Exit.GOOD


def _summary(plan: Plan) -> JsonObject:
    lanes = [
        {"name": lane.name, "kind": lane.kind, "memory": lane.memory, "runs": len(lane.runs)}
        for lane in plan.lanes
    ]
    return {"project": plan.project, "suite": plan.suite.name, "lanes": lanes}


def _lanes_table(plan: Plan) -> str:
    category_of = {scenario.id: scenario.category for scenario in plan.scenarios}
    rows = []
    for lane in plan.lanes:
        counts = Counter(category_of[key.scenario] for key in lane.run_keys)
        shown = ", ".join(f"{category} {count}" for category, count in sorted(counts.items()))
        memory = "on" if lane.memory else "off"
        rows.append([lane.name, lane.kind, memory, len(lane.runs), lane.weight_minutes, shown])
    return table(["lane", "kind", "memory", "runs", "minutes", "categories"], rows)


def check_plan(options: argparse.Namespace) -> int:
    """Say every reason for which the store would refuse a plan; without the store."""
    policy = read_document(options.policy, Policy, what="policy")
    suite = read_document(options.suite, Suite, what="suite") if options.suite else None
    base = BaseSuite(suite.digest, suite.model) if suite is not None else None
    document = read_json(options.file, what="plan")
    plan = planning.checked_plan(document, policy=policy.model, base=base, at=clock.now())
    if plan.policy_digest != policy.digest:
        raise planning.PlanRefusedError(
            f"/policy_digest was {plan.policy_digest}; expected {policy.digest}, the digest of "
            f"{options.policy}. Build the plan anew with that policy."
        )
    for note in too_small_words(plan, policy.model):
        complain(note)
    if wants_json(options):
        say_json({"digest": document_digest(document), "faults": []})
    else:
        say(f"The plan can be registered: {document_digest(document)}")
    return Exit.GOOD


def register_plan(options: argparse.Namespace) -> int:
    """Send a plan; the store answers with every reason if it refuses."""
    # The plan is read here first, so that a slip costs no round trip.
    read_document(options.file, Plan, what="plan")
    with connected(options) as store:
        answer = store.register(read_file(options.file, what="plan"))
    if wants_json(options):
        say_json(answer.model_dump(mode="json"))
    else:
        verified = "" if answer.verified else " (unverified: registered with a static token)"
        say(f"Plan {answer.digest} is registered{verified}: {answer.url}")
    return Exit.GOOD


def close_plan(options: argparse.Namespace) -> int:
    """Ask the store to decide with what has arrived."""
    digest = plan_digest(options.digest)
    with connected(options) as store:
        answer = store.close_plan(digest)
    if wants_json(options):
        say_json(answer)
    else:
        say(_closed_sentence(answer, digest))
    return Exit.GOOD


def _closed_sentence(plan: JsonObject, digest: str) -> str:
    verdict = f"see `evalhub verdict {digest} --wait 60`"
    if plan.get("state") == "concluded" and plan.get("concluded_at"):
        return f"Plan {digest} was decided already, at {plan['concluded_at']}; {verdict}."
    return f"Plan {digest} is closed; {verdict}."


def reopen_plan(options: argparse.Namespace) -> int:
    """Ask the store to wait for the plan's lanes again."""
    digest = plan_digest(options.digest)
    with connected(options) as store:
        answer = store.reopen_plan(digest)
    if wants_json(options):
        say_json(answer)
    else:
        say(
            f"Plan {digest} waits for its lanes until {answer.get('deadline_at')};"
            " run those again that were told to stop."
        )
    return Exit.GOOD


def cancel_plan(options: argparse.Namespace) -> int:
    """End a plan at the store, for good."""
    digest = plan_digest(options.digest)
    with connected(options) as store:
        answer = store.cancel_plan(digest, reason=options.reason)
    if wants_json(options):
        say_json(answer)
    else:
        why = answer.get("cancel_reason")
        say(
            f"Plan {digest} is cancelled since {answer.get('cancelled_at')}"
            f"{f' ({why})' if why else ''}: its lanes are told to stop."
        )
    return Exit.GOOD
