"""The flags of `evalhub plan build`, and the request that they make."""

import argparse
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.policy import TIERS, Event, Policy
from evalhub.protocol.scalars import rfc3339
from evalhub.protocol.suite import LaneMap, Suite
from evalhub.runner import clock
from evalhub.runner.documents import (
    JsonObject,
    as_document,
    read_document,
    read_file,
    read_json,
    write_document,
)
from evalhub.runner.errors import InputError
from evalhub.runner.importers.results import FORMATS, READERS, ImportRequest, read_inputs
from evalhub.runner.planning import ArmChoice, PlanRequest
from evalhub.runner.simulator import seeding
from evalhub.runner.sources import source_of

SIMULATORS = ("evalhub.payments",)

_TIER_HELP = (
    "how real the environment of the runs is, as you vouch for it: "
    "llm_emulated (a model plays the services), "
    "sandboxed_interactive (a simulator with state, evalhub.payments say), "
    "containerized (the real services in containers of their own), "
    "live (the services that customers use)"
)
_NEEDED_FOR_IMPORT = {"project": "OWNER/NAME", "out": "where the plan is to be written"}
_NEEDED = {
    **_NEEDED_FOR_IMPORT,
    "suite": "the suite's file",
    "policy": "the policy's file",
    "arm": "at least one --arm NAME=SUBJECT:MODEL",
    "tier": (
        f"one of {', '.join(TIERS)}: choose the one that describes where the agent will run, "
        "at least the policy's environment.minimum_tier (`evalhub plan build --help` says what "
        "each means)"
    ),
}
# The files that a plan is made of, by flag.
_INPUT_FILES = {
    "suite": "suite",
    "policy": "policy",
    "lane_map": "lane map",
    "stages": "stages",
    "guards": "guards",
    "conditions": "conditions",
    "lockfile": "lockfile",
}
_SOURCE_FLAGS = (
    "event",
    "repository_id",
    "ref",
    "pull_request",
    "head_sha",
    "tested_sha",
    "base_sha",
    "workflow_run_id",
    "image_digest",
)


def add_build_flags(parser: argparse.ArgumentParser) -> None:
    """Add everything that `plan build` takes."""
    # What is absent is told by `_refuse_absent`, together with the files that cannot be read.
    parser.add_argument("--project", metavar="OWNER/NAME", help="required")
    parser.add_argument("--out", type=Path, metavar="FILE", help="plan.json (required)")
    parser.add_argument("--suite", type=Path, metavar="FILE", help="the suite as checked out")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="the base branch's policy")
    _add_import_flags(parser)
    _add_lane_flags(parser)
    _add_arm_flags(parser)
    _add_source_flags(parser)
    _add_evidence_flags(parser)


def _add_import_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("from the results of another tool")
    group.add_argument("--from-results", type=Path, nargs="+", metavar="FILE")
    group.add_argument("--format", choices=FORMATS, default=FORMATS[0])
    group.add_argument("--suite-out", type=Path, metavar="FILE", help="write the suite found")
    group.add_argument(
        "--policy-out", type=Path, metavar="FILE", help="write a policy to begin with"
    )


def _add_lane_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("lanes")
    group.add_argument("--lane-map", type=Path, metavar="FILE", help="lanes by category")
    group.add_argument("--lanes", type=int, metavar="N", help="ordinary lanes, the memory lane too")
    group.add_argument("--baseline-lanes", type=int, default=1, metavar="N")
    group.add_argument("--exclude", action="append", default=[], metavar="CATEGORY=REASON")
    group.add_argument("--epochs", type=int, default=1, metavar="N")
    group.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at once in a lane")
    group.add_argument("--timeout-minutes", type=int, metavar="N")
    group.add_argument("--deadline-minutes", type=int, metavar="N")
    group.add_argument("--limit-ordinary", type=int, metavar="N")
    group.add_argument("--limit-baseline", type=int, metavar="N")
    group.add_argument("--max-parallel", type=int, metavar="N")


def _add_arm_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("arms")
    group.add_argument("--arm", action="append", default=[], metavar="NAME=SUBJECT:MODEL")
    group.add_argument("--condition", action="append", default=[], metavar="ARM=CONDITION")
    group.add_argument("--conditions", type=Path, metavar="FILE", help="fault profiles by name")
    group.add_argument("--baseline-reason", metavar="TEXT")


def _add_source_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("source (found by itself in GitHub Actions)")
    group.add_argument("--event", choices=get_args(Event))
    group.add_argument("--repository-id", type=int, metavar="N")
    group.add_argument("--ref")
    group.add_argument("--pull-request", type=int, metavar="N")
    group.add_argument("--head-sha", metavar="SHA", help="where the check goes")
    group.add_argument("--tested-sha", metavar="SHA", help="what was checked out")
    group.add_argument("--base-sha", metavar="SHA")
    group.add_argument("--workflow-run-id", type=int, metavar="N")
    group.add_argument(
        "--lockfile", type=Path, metavar="FILE", help="its digest goes into the plan"
    )
    group.add_argument("--image-digest", metavar="DIGEST")
    group.add_argument(
        "--no-reuse", action="store_true", help="never the plan of this workflow run"
    )


def _add_evidence_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("evidence")
    group.add_argument("--rubric", action="append", metavar="NAME", help="default: the policy's")
    group.add_argument("--stages", type=Path, metavar="FILE", help="[{rubric, stage, fingerprint}]")
    group.add_argument("--tier", choices=TIERS, help=_TIER_HELP)
    group.add_argument("--simulator", choices=SIMULATORS, help="the world of each lane")
    group.add_argument("--simulator-seed", type=int, default=1, metavar="N")
    group.add_argument("--simulator-name", metavar="NAME", help="a simulator of another maker")
    group.add_argument("--simulator-build", metavar="DIGEST")
    group.add_argument("--simulator-seed-digest", metavar="DIGEST")
    group.add_argument("--guard", action="append", default=[], metavar="NAME=EXPECTED:OBSERVED")
    group.add_argument("--guards", type=Path, metavar="FILE", help="guards as a plan has them")
    group.add_argument("--pool", metavar="NAME")
    group.add_argument("--budget-microusd", type=int, metavar="N", help="judge money of each lane")
    group.add_argument("--expects-run", metavar="LIST", help="result,transcript,judge")
    group.add_argument("--expects-lane", metavar="LIST", help="preflight,environment,log:agent")


def plan_request(options: argparse.Namespace, *, environment: Mapping[str, str]) -> PlanRequest:
    """Return the request that the flags of a plan make.

    Raises:
        InputError: that names the flag, what it was and what was expected.
    """
    _refuse_absent(options)
    for flag in ("lanes", "baseline_lanes", "epochs", "jobs"):
        value = getattr(options, flag)
        if value is not None and value < 1:
            raise InputError(f"--{flag.replace('_', '-')} was {value}; expected at least 1.")
    lane_map = (
        read_document(options.lane_map, LaneMap, what="lane map") if options.lane_map else None
    )
    return PlanRequest(
        project=options.project,
        suite=read_document(options.suite, Suite, what="suite"),
        policy=read_document(options.policy, Policy, what="policy"),
        arms=arm_choices(options),
        source=source(options, environment=environment),
        tier=options.tier,
        lane_map=lane_map,
        lanes=options.lanes,
        baseline_lanes=options.baseline_lanes,
        epochs=options.epochs,
        jobs=options.jobs,
        excluded=dict(_pair(text, "--exclude", "CATEGORY=REASON") for text in options.exclude),
        conditions=_conditions(options.conditions),
        rubrics=options.rubric,
        stages=_listed_objects(options.stages, what="stages"),
        guards=_guards(options),
        simulator=_simulator(options),
        pool=options.pool,
        budget_microusd=options.budget_microusd,
        expects_run=_words(options.expects_run),
        expects_lane=_words(options.expects_lane, ("environment", "log:agent", "preflight")),
        timeout_minutes=options.timeout_minutes,
        deadline_minutes=options.deadline_minutes,
        limit_ordinary=options.limit_ordinary,
        limit_baseline=options.limit_baseline,
        max_parallel=options.max_parallel,
        baseline_reason=options.baseline_reason,
    )


def _refuse_absent(options: argparse.Namespace) -> None:
    """Refuse flags that are absent and files that cannot be read, all of them at once."""
    needed = _NEEDED_FOR_IMPORT if options.from_results else _NEEDED
    lines = [
        f"--{flag} was absent; expected {expected}."
        for flag, expected in needed.items()
        if not getattr(options, flag)
    ]
    if options.from_results and options.policy is None and options.policy_out is None:
        lines.append(
            "--policy was absent; expected the policy's file, or --policy-out FILE to begin with one "
            "that gates what the results measure."
        )
    files = [(getattr(options, flag), what) for flag, what in _INPUT_FILES.items()]
    files += [(path, "results") for path in options.from_results or []]
    for path, what in files:
        if path is None:
            continue
        try:
            read_file(path, what=what)
        except InputError as error:
            lines.append(str(error))
    if lines:
        raise InputError("\n".join(lines))


def import_request(options: argparse.Namespace, *, environment: Mapping[str, str]) -> ImportRequest:
    """Return the request that the flags make of results files; write suite and policy where asked.

    Raises:
        InputError: that names the flag or the place in a file, what it was and what was expected.
    """
    _refuse_absent(options)
    inputs = read_inputs(options.from_results)
    results = READERS[options.format](inputs.files)
    if options.suite_out is not None:
        write_document(options.suite_out, results.suite)
    if options.policy_out is not None:
        write_document(options.policy_out, results.policy)
    found = {"event": "import", "input_digest": inputs.digest}
    return ImportRequest(
        project=options.project,
        results=results,
        suite=read_document(options.suite, Suite, what="suite")
        if options.suite
        else as_document(results.suite, Suite, what="suite of the results"),
        policy=read_document(options.policy or options.policy_out, Policy, what="policy"),
        arms=arm_choices(options),
        source={**source(options, environment=environment), **found},
        tier=options.tier,
        rubrics=options.rubric,
    )


def arm_choices(options: argparse.Namespace) -> list[ArmChoice]:
    """Return the arms that `--arm` and `--condition` give."""
    conditions = dict(_pair(text, "--condition", "ARM=CONDITION") for text in options.condition)
    arms = []
    for text in options.arm:
        name, rest = _pair(text, "--arm", "NAME=SUBJECT:MODEL")
        subject, colon, model = rest.partition(":")
        if not (subject and colon and model):
            raise InputError(f"--arm was {text!r}; expected NAME=SUBJECT:MODEL.")
        arms.append(ArmChoice(name, subject, model, conditions.pop(name, "clean")))
    for name in conditions:
        raise InputError(f"--condition names arm {name!r}, for which there is no --arm.")
    return arms


def source(options: argparse.Namespace, *, environment: Mapping[str, str]) -> JsonObject:
    """Return the plan's source: flags, else GitHub Actions."""
    given = {name: getattr(options, name) for name in _SOURCE_FLAGS}
    if options.from_results:
        # The job that imports is not the job that ran.
        given["event"] = "import"
    if options.lockfile is not None:
        given["lockfile_digest"] = bytes_digest(read_file(options.lockfile, what="lockfile"))
    return source_of(environment, given)


def _pair(text: str, flag: str, form: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise InputError(f"{flag} was {text!r}; expected {form}.")
    return name, value


def _conditions(path: Path | None) -> JsonObject:
    if path is None:
        return {}
    document = read_json(path, what="conditions")
    if not isinstance(document, dict):
        raise InputError(f"The conditions {path} were no object; expected fault profiles by name.")
    return document


def _listed_objects(path: Path | None, *, what: str) -> list[JsonObject]:
    if path is None:
        return []
    document: Any = read_json(path, what=what)
    if not isinstance(document, list) or not all(isinstance(item, dict) for item in document):
        raise InputError(f"The {what} {path} were no list of objects; expected a JSON list.")
    return document


def _guards(options: argparse.Namespace) -> list[JsonObject]:
    guards = _listed_objects(options.guards, what="guards")
    # Whole seconds: finer ones would only make equal plans unequal.
    at = clock.now()
    checked_at = rfc3339(at - timedelta(microseconds=at.microsecond))
    for text in options.guard:
        name, rest = _pair(text, "--guard", "NAME=EXPECTED:OBSERVED")
        expected, colon, observed = rest.partition(":")
        if not colon:
            raise InputError(f"--guard was {text!r}; expected NAME=EXPECTED:OBSERVED.")
        guards.append(
            {
                "name": name,
                "expected": expected,
                "observed": observed,
                "result": "ok" if expected == observed else "failed",
                "checked_at": checked_at,
                "fix": f"Mend what guard {name} looks at until it observes {expected}.",
            }
        )
    return guards


def _simulator(options: argparse.Namespace) -> JsonObject | None:
    if options.simulator is not None:
        world = seeding.seeded_world(options.simulator_seed)
        return {
            "name": seeding.NAME,
            "build": seeding.build_digest(),
            "seed_digest": world.digest(),
        }
    if options.simulator_name is None and options.simulator_build is None:
        return None
    if options.simulator_name is None or options.simulator_build is None:
        raise InputError("--simulator-name and --simulator-build belong together; give both.")
    return {
        "name": options.simulator_name,
        "build": options.simulator_build,
        "seed_digest": options.simulator_seed_digest,
    }


def _words(text: str | None, default: Any = None) -> Any:
    if text is None:
        return default
    return [word.strip() for word in text.split(",") if word.strip()]
