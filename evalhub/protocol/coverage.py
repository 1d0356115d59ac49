"""What evidence a plan expects from a lane, and which of it is not there."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from evalhub.protocol.paths import ItemKind, ItemPath, format_path, parse_path, run_folder
from evalhub.protocol.plan import PlannedLane, RunKey
from evalhub.protocol.records import AGENT_FAULTS, MEASURED


class RunEvidence(NamedTuple):
    """What was accepted of one run."""

    outcome: str | None
    """None while no result was accepted."""
    transcript_parts_expected: int
    transcript_parts: frozenset[int]
    judged_rubrics: frozenset[str]


NOTHING = RunEvidence(None, 0, frozenset(), frozenset())


def missing_run_evidence(
    lane: PlannedLane, runs: Mapping[RunKey, RunEvidence], *, judged_rubrics: Iterable[str]
) -> dict[RunKey, list[str]]:
    """Return the paths that are absent, by run key; run keys that lack nothing are left out.

    `judged_rubrics` are the plan's rubrics that a judge scores: `judge` is there when each of them
    has at least one line. Passed and failed runs need all that the lane expects, an agent's own
    error needs result and transcript, an unmeasured run its result alone.
    """
    judged = frozenset(judged_rubrics)
    missing = {key: _missing(lane, key, runs.get(key, NOTHING), judged) for key in lane.run_keys}
    return {key: paths for key, paths in missing.items() if paths}


def missing_lane_evidence(lane: PlannedLane, lane_paths: Iterable[str]) -> list[str]:
    """Return the lane's own records that are expected and absent."""
    present = {_lane_word(parse_path(path)) for path in lane_paths}
    return [_lane_example(word) for word in lane.expects.lane if word not in present]


def _missing(
    lane: PlannedLane, key: RunKey, evidence: RunEvidence, judged: frozenset[str]
) -> list[str]:
    if evidence.outcome is None:
        return [format_path(ItemPath(ItemKind.RESULT, key))]
    if evidence.outcome not in MEASURED | AGENT_FAULTS:
        return []
    missing: list[str] = []
    if "transcript" in lane.expects.run:
        # A result that names no part still owes the transcript that the plan expects.
        wanted = range(1, max(evidence.transcript_parts_expected, 1) + 1)
        missing += [
            format_path(ItemPath(ItemKind.TRANSCRIPT, key, part=part))
            for part in wanted
            if part not in evidence.transcript_parts
        ]
    if "judge" in lane.expects.run and evidence.outcome in MEASURED:
        absent = judged - evidence.judged_rubrics
        missing += [f"{run_folder(key)}/judge ({rubric})" for rubric in sorted(absent)]
    return missing


def _lane_word(item: ItemPath) -> str:
    return f"log:{item.name}" if item.kind is ItemKind.LOG else str(item.kind)


def _lane_example(word: str) -> str:
    name = word.removeprefix("log:")
    if name != word:
        return format_path(ItemPath(ItemKind.LOG, part=1, name=name))
    return f"lane/{word}.json"
