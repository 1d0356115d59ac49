"""The scores of runs: the means of what judges said, and how they are written. Called as `rows` is."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from evidence.store.models import JudgeCall, Score


def judged_scores(calls: Iterable[JudgeCall]) -> Iterator[Score]:
    """Yield the mean of the repeats of each run, rubric, stage and fingerprint."""
    groups: dict[tuple[int, str, str, str], dict[UUID, float | None]] = defaultdict(dict)
    for call in calls:
        group = groups[call.run_id, call.rubric, call.stage, call.fingerprint]
        # A call that is told of twice was made once.
        group.setdefault(call.call_id, call.value)
    for (run_id, rubric, stage, fingerprint), values in groups.items():
        scored = [value for value in values.values() if value is not None]
        yield Score(
            run_id=run_id,
            rubric=rubric,
            stage=stage,
            fingerprint=fingerprint,
            value=_mean(scored) if scored else None,
            repeats=len(values),
        )


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        # Rows from before values were bounded; a part of each cannot overflow.
        return math.fsum(value / len(values) for value in values)


def store_scores(scores: Iterable[Score]) -> None:
    """Write scores; one that is there for the same run, rubric, stage and fingerprint is replaced."""
    Score.objects.bulk_create(
        scores,
        update_conflicts=True,
        unique_fields=["run", "rubric", "stage", "fingerprint"],
        update_fields=["value", "repeats"],
    )
