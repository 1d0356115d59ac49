"""What every importer gives, and the suite, plan and policy that are made of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from evalhub.protocol.canonical import bytes_digest, document_digest
from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Policy
from evalhub.protocol.suite import Suite
from evalhub.runner.documents import JsonObject, Loaded, read_file
from evalhub.runner.errors import InputError
from evalhub.runner.importers import tau_bench
from evalhub.runner.importers.records import ImportedResults, SourceFile
from evalhub.runner.planning import ArmChoice, BuiltPlan, PlanRequest
from evalhub.runner.planning import build_plan as build_requested

Reader = Callable[[Sequence[SourceFile]], ImportedResults]

READERS: dict[str, Reader] = {"tau-bench": tau_bench.read_results}
FORMATS = tuple(READERS)


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """What a plan of imported results is made of."""

    project: str
    results: ImportedResults
    suite: Loaded[Suite]
    policy: Loaded[Policy]
    arms: Sequence[ArmChoice]
    source: JsonObject = field(default_factory=dict)
    tier: str | None = None
    rubrics: Sequence[str] | None = None


class InputFiles(NamedTuple):
    """The files of an import and the digest that makes two of them two plans."""

    files: list[SourceFile]
    digest: str


def read_inputs(paths: Sequence[Path]) -> InputFiles:
    """Return the files of an import. `digest` is over their sorted digests: order has no meaning.

    Raises:
        InputError: if one cannot be read, or stands there twice.
    """
    files = [SourceFile(path, read_file(path, what="results")) for path in paths]
    digests = sorted(bytes_digest(file.data) for file in files)
    if len(set(digests)) < len(digests):
        raise InputError(
            "Two of the results files have the same bytes; expected each file once, "
            "since the same run does not count twice."
        )
    return InputFiles(files, document_digest(digests))


def build_plan(request: ImportRequest, *, at: datetime) -> BuiltPlan:
    """Return a plan that expects the results in one lane.

    Each scenario is expected as often as the most frequent one: what a scenario lacks is missing
    evidence, not left out.

    Raises:
        InputError: if the arms are not exactly one, or the plan would be refused.
    """
    if len(request.arms) > 1:
        raise InputError("--arm was given more than once; results are of one arm.")
    results = request.results
    arms = request.arms or [ArmChoice("candidate", results.subject, results.model)]
    built = build_requested(
        PlanRequest(
            project=request.project,
            suite=request.suite,
            policy=request.policy,
            arms=arms,
            source=request.source,
            tier=request.tier or results.tier,
            lanes=1,
            epochs=max(run.epoch for run in results.runs),
            rubrics=request.rubrics,
            expects_lane=(),
        ),
        at=at,
    )
    return built._replace(notes=[*built.notes, *_unscored_notes(built.plan, request)])


def _unscored_notes(plan: Plan, request: ImportRequest) -> list[str]:
    scored = {name for run in request.results.runs for name in run.result["scores"]}
    return [
        f"Rubric {name} has no value in these results; they give {', '.join(sorted(scored))}."
        for name in plan.rubrics
        if request.policy.model.rubrics[name].source == "result" and name not in scored
    ]
