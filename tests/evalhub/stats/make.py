"""Typed makers for the tests of the statistics."""

from collections.abc import Sequence

from hypothesis import settings

from evalhub.stats.rubric import Kind, MeanRubric, RunScore, RunStatus, Scale, TailRubric

# Enough to find what is wrong, few enough for every commit; no deadline, as machines are shared.
quick = settings(max_examples=40, deadline=None)
UNIT = Scale(0.0, 1.0)


def make_runs(
    values: Sequence[float | Sequence[float | None] | None],
    *,
    digest: str = "sha256:one",
    prefix: str = "scenario",
    status: RunStatus = RunStatus.OK,
) -> list[RunScore]:
    """One scenario per entry; a list of lists gives several epochs. None is not judged."""
    runs = []
    for index, entry in enumerate(values):
        epochs = entry if isinstance(entry, Sequence) else [entry]
        for epoch, value in enumerate(epochs, start=1):
            missing = RunStatus.JUDGE_ERROR if value is None else status
            runs.append(RunScore(f"{prefix}-{index:04d}", digest, epoch, value, missing))
    return runs


def make_plain_runs(values: Sequence[float]) -> list[RunScore]:
    """Runs without scenario ids: the textbook's two samples."""
    return [RunScore(None, "", 1, value) for value in values]


def make_continuous(**changes: object) -> MeanRubric:
    settings: dict[str, object] = {
        "key": "quality",
        "kind": Kind.CONTINUOUS,
        "min_effect": 0.05,
        "scale": UNIT,
    }
    return MeanRubric(**{**settings, **changes})  # type: ignore[arg-type]


def make_binary(**changes: object) -> MeanRubric:
    settings: dict[str, object] = {"key": "resolved", "kind": Kind.BINARY, "min_effect": 0.10}
    return MeanRubric(**{**settings, **changes})  # type: ignore[arg-type]


def make_tail(**changes: object) -> TailRubric:
    return TailRubric(**{"key": "latency", **changes})  # type: ignore[arg-type]
