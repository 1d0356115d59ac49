"""Decision records: what is stored of a comparison, in JSON's own types."""

from enum import StrEnum
from math import isfinite

from evalhub.stats.blocks import Block
from evalhub.stats.exceedance import Exceedance
from evalhub.stats.missing import Missingness
from evalhub.stats.outcomes import Confirmation, MeanComparison, TailComparison

# Enough to recompute a verdict, few enough that two machines store the same digits.
SIGNIFICANT_DIGITS = 12


def jsonable(value: object) -> object:
    """Return `value` in JSON's types: floats at 12 significant digits, NaN and infinity as null.

    >>> jsonable((0.1 + 0.2, float("nan"), None))
    [0.3, None, None]
    """
    if isinstance(value, bool | int | None):
        return value
    if isinstance(value, float):
        # Adding 0.0 turns -0.0 into 0.0.
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") + 0.0 if isfinite(value) else None
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no place in a decision record.")


def mean_record(
    comparison: MeanComparison, *, confirmation: Confirmation | None
) -> dict[str, object]:
    """Return the record of a mean rubric."""
    rubric, floor = comparison.rubric, comparison.abs_floor
    return _record(
        {
            "rubric": rubric.key,
            "kind": rubric.kind,
            "direction": rubric.direction,
            "design": rubric.design,
            "decided_by": comparison.decided_by,
            "n": {
                "b": comparison.n_baseline,
                "c": comparison.n_candidate,
                "pairs": comparison.n_pairs,
            },
            **_arms(comparison),
            "mean_b": comparison.mean_baseline,
            "mean_c": comparison.mean_candidate,
            "delta": comparison.delta,
            "se": comparison.se,
            "se_batch": None if comparison.paired is None else comparison.paired.se_batch,
            "df": comparison.df,
            "stat": comparison.statistic,
            "p": comparison.p,
            "ci95": comparison.ci95,
            "lower95": comparison.lower95,
            "floor": comparison.floor,
            "ni_margin": comparison.ni_margin,
            "alpha": rubric.alpha,
            "mde80": comparison.mde80,
            "n_required": comparison.n_required,
            "p_floor": comparison.p_floor,
            "tost_p": comparison.tost_p,
            "equivalent": comparison.equivalent,
            "abs_floor": None
            if floor is None
            else {
                "floor": rubric.abs_floor,
                "verdict": floor.verdict,
                "lower95": floor.lower95,
                "upper95": floor.upper95,
            },
            "unpaired": _block(comparison.unpaired),
            "paired": _block(comparison.paired),
            "tail": None,
        },
        comparison,
        confirmation,
    )


def tail_record(
    comparison: TailComparison, *, confirmation: Confirmation | None
) -> dict[str, object]:
    """Return the record of a tail rubric; larger is worse in `tail.r` to `tail.k_max`."""
    rubric, ceiling = comparison.rubric, comparison.ceiling
    information = comparison.information
    return _record(
        {
            "rubric": rubric.key,
            "kind": "tail",
            "direction": rubric.direction,
            "design": None,
            "decided_by": None,
            "n": {"b": comparison.n_baseline, "c": comparison.n_candidate, "pairs": 0},
            **_arms(comparison),
            "p": comparison.p,
            "alpha": rubric.alpha,
            "unpaired": None,
            "paired": None,
            "tail": {
                "q": rubric.q,
                "rel_tol": rubric.rel_tol,
                "abs_tol": rubric.abs_tol,
                "ni_tol": rubric.ni_tol,
                **_exceedance(comparison.test),
                "p95_b": comparison.quantile_baseline,
                "p95_c": comparison.quantile_candidate,
                "p_ni": comparison.p_non_inferior,
                "share_visible": None if information is None else information.share,
                "k_needed": None if information is None else information.k,
                "ceiling": None
                if ceiling is None
                else {
                    "limit": rubric.ceiling,
                    "n": ceiling.n,
                    "k": ceiling.k_over,
                    "p_breach": ceiling.p_breach,
                    "p_pass": ceiling.p_pass,
                    "verdict": ceiling.verdict,
                },
                "regression": comparison.regression,
                "breach": comparison.breach,
                "safety_shown": comparison.safety_shown,
            },
        },
        comparison,
        confirmation,
    )


def _record(
    content: dict[str, object],
    comparison: MeanComparison | TailComparison,
    confirmation: Confirmation | None,
) -> dict[str, object]:
    ending = {
        "verdict": comparison.verdict,
        "reasons": comparison.reasons,
        "p_holm": None if confirmation is None else confirmation.p_holm,
        "confirmed": None if confirmation is None else confirmation.confirmed,
    }
    return {key: jsonable(value) for key, value in {**content, **ending}.items()}


def _arms(comparison: MeanComparison | TailComparison) -> dict[str, object]:
    return {
        "runs": {"b": comparison.runs_baseline, "c": comparison.runs_candidate},
        "missing": _missing(comparison.missingness)
        | {"b": comparison.missing_baseline, "c": comparison.missing_candidate},
        "suite": {
            "added": comparison.added,
            "removed": comparison.removed,
            "changed": comparison.changed,
        },
    }


def _missing(gaps: Missingness | None) -> dict[str, object]:
    if gaps is None:
        return {"share_b": None, "share_c": None, "p": None, "caps": None}
    return {
        "share_b": gaps.share_baseline,
        "share_c": gaps.share_candidate,
        "p": gaps.p_informative,
        "caps": gaps.caps,
    }


def _block(block: Block | None) -> dict[str, object] | None:
    if block is None:
        return None
    return {
        "test": block.test,
        "n": {"b": block.n_baseline, "c": block.n_candidate},
        "mean_b": block.mean_baseline,
        "mean_c": block.mean_candidate,
        "delta": block.delta,
        "se": block.se,
        "df": block.df,
        "stat": block.statistic,
        "p": block.p,
        "ci95": block.ci95,
        "ci90": block.ci90,
        "deff": block.deff,
        "mde80": block.mde80,
        "edge": block.edge,
    }


def _exceedance(test: Exceedance | None) -> dict[str, object]:
    if test is None:
        return dict.fromkeys(("r", "T", "k", "k_b", "k_max", "ties", "deff", "p_tail"))
    return {
        "r": test.r,
        "T": test.threshold,
        "k": test.k,
        "k_b": test.k_b,
        "k_max": test.k_max,
        "ties": test.ties,
        "deff": test.deff,
        "p_tail": test.p_tail,
    }
