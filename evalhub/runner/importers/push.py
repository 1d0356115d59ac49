"""Imported results as evidence of a lane: written into a spool, sent and sealed like a lane's own."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evalhub.protocol.plan import Plan, PlannedLane, RunKey
from evalhub.runner.client import Store
from evalhub.runner.connection import patient
from evalhub.runner.delivery import Delivery, DeliveryReport
from evalhub.runner.documents import Loaded
from evalhub.runner.errors import InputError
from evalhub.runner.harvest import harvest
from evalhub.runner.holding import held
from evalhub.runner.importers.records import ImportedResults, ImportedRun
from evalhub.runner.importers.results import READERS, read_inputs
from evalhub.runner.members import LeftFile, Member
from evalhub.runner.session import AttemptSession
from evalhub.runner.spool import LaneState, Spool
from evalhub.runner.stopping import Stop


@dataclass(frozen=True, kw_only=True)
class ImportPush:
    """What `push --from` was asked for."""

    plan: Loaded[Plan]
    plan_bytes: bytes
    form: str
    paths: Sequence[Path]
    lane: str | None
    spool: Path
    seconds: float


def push_results(
    store: Store, request: ImportPush, *, report: Callable[[str], None]
) -> DeliveryReport:
    """Send the runs of results files as one attempt of a lane.

    Raises:
        InputError: if the files are not those of the plan, or a run is not one that it expects.
        RunnerError: if the store is away or refuses the attempt.
    """
    plan = request.plan.model
    inputs = read_inputs(request.paths)
    if plan.source.input_digest != inputs.digest:
        raise InputError(
            f"The plan's input_digest was {plan.source.input_digest}, these files have "
            f"{inputs.digest}; expected the files that the plan was built from, or build one from these."
        )
    results = READERS[request.form](inputs.files)
    lane = _lane(plan, request.lane)
    keyed = _keyed(results, lane)
    opened = patient(
        lambda: store.open_attempt(request.plan.digest, lane.name),
        seconds=request.seconds,
        report=report,
    ).attempt
    state = LaneState(
        plan=request.plan.digest,
        lane=lane.name,
        attempt=opened.attempt,
        store=store.url,
        opened_at=store.clock.now(),
        segment_bytes=opened.limits.segment_bytes,
    )
    folder = request.spool / opened.attempt
    with ExitStack() as stack:
        stack.enter_context(held(folder))
        spool = Spool.created(folder, state, plan=plan, plan_bytes=request.plan_bytes)
        stop = Stop()
        stack.enter_context(stop.on_signals())
        session = AttemptSession.begun(store, opened)
        _cut(spool, keyed, at=session.stamp(), report=report)
        delivery = Delivery(spool, session, stop=stop, report=report)
        stack.callback(delivery.close)
        finished = delivery.finish(seconds=request.seconds, on_tick=lambda: None)
    for run in keyed.values():
        outcome = str(run.result["outcome"])
        finished.outcomes[outcome] = finished.outcomes.get(outcome, 0) + 1
    return finished


def _lane(plan: Plan, name: str | None) -> PlannedLane:
    lanes = [lane for lane in plan.lanes if name is None or lane.name == name]
    if len(lanes) != 1:
        names = ", ".join(lane.name for lane in plan.lanes)
        raise InputError(
            f"--lane was {name or 'absent'}; expected one of the plan's lanes: {names}."
        )
    return lanes[0]


def _keyed(results: ImportedResults, lane: PlannedLane) -> dict[RunKey, ImportedRun]:
    arms = {key.arm for key in lane.run_keys}
    if len(arms) != 1:
        raise InputError(f"Lane {lane.name} runs {len(arms)} arms; results are of one arm.")
    arm = arms.pop()
    keyed = {RunKey(run.scenario, arm, run.epoch): run for run in results.runs}
    for key in sorted(set(keyed) - set(lane.run_keys)):
        raise InputError(
            f"The results have run {key}, which lane {lane.name} does not own; "
            "expected the results that the plan was built from."
        )
    return keyed


def _cut(
    spool: Spool,
    keyed: dict[RunKey, ImportedRun],
    *,
    at: datetime,
    report: Callable[[str], None],
) -> None:
    """Write each run's folder as an agent would have, and cut all of them into few segments."""
    record: list[Member] = []
    bulk: list[Member | LeftFile] = []
    for key, run in keyed.items():
        folder = spool.run_folder(key)
        _write(folder, run)
        found = harvest(folder, key, ended=None)
        for sentence in found.sentences:
            report(sentence)
        record += found.record
        bulk += found.bulk
    spool.cut("record", record, at=at)
    spool.cut("bulk", bulk, at=at)
    spool.cut("record", [spool.redactions()], at=at)


def _write(folder: Path, run: ImportedRun) -> None:
    (folder / "files").mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(run.result), encoding="utf-8")
    lines = "".join(json.dumps(turn, ensure_ascii=False) + "\n" for turn in run.turns)
    (folder / "transcript.ndjson").write_text(lines, encoding="utf-8")
    for name, data in run.files.items():
        (folder / "files" / name).write_bytes(data)
