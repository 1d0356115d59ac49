"""Every comparison, and the list of all statistics, by the name that a file of known answers calls it, in JSON's types.

Each function takes a case's `input` and returns the fields that a case may expect.
"""

from collections.abc import Callable
from dataclasses import replace

from evalhub.stats import (
    binary,
    decision,
    exceedance,
    fold,
    multiplicity,
    paired,
    power,
    sample_answers,
    welch,
)
from evalhub.stats.intervals import is_usable, t_interval, two_sided_t
from evalhub.stats.reasons import Reason, Verdict
from evalhub.stats.rubric import Gate
from evalhub.stats.sample_answers import Answer, Input, runs_of

# Verdict words of a fold case that stand for an absolute limit, or for a reason.
FOLD_WORDS = {
    "TAIL_REGRESSION": fold.FoldInput(verdict=Verdict.REGRESSION),
    "BELOW_FLOOR": fold.FoldInput(verdict=Verdict.INCONCLUSIVE, below_floor=True),
    "CEILING_BREACH": fold.FoldInput(verdict=Verdict.INCONCLUSIVE, breach=True),
    "JUDGE_CHANGED": fold.FoldInput(verdict=Verdict.INCONCLUSIVE, reasons=(Reason.JUDGE_CHANGED,)),
    "NOT_JUDGED": fold.FoldInput(verdict=Verdict.INCONCLUSIVE, reasons=(Reason.NOT_JUDGED,)),
}
TIERS = {"pr": False, "pull_request": False, "protected": True}


def welch_test(given: Input) -> Answer:
    """Welch's t test on two lists that may hold missing values."""
    arm_b, arm_c = welch.usable(given["baseline"]), welch.usable(given["candidate"])
    return {
        **_t_fields(welch.welch(arm_b, arm_c)),
        "n_used": [len(arm_b), len(arm_c)],
        "missing": [len(given["baseline"]) - len(arm_b), len(given["candidate"]) - len(arm_c)],
    }


def welch_from_stats(given: Input) -> Answer:
    """Welch's t test from size, mean and standard deviation."""
    arms = [welch.Summary(**given[arm]) for arm in ("baseline", "candidate")]
    return _t_fields(welch.welch_from_summaries(*arms))


def paired_test(given: Input) -> Answer:
    """The paired t test on two lists that may hold missing values."""
    pairs = [
        (b, c)
        for b, c in zip(given["baseline"], given["candidate"], strict=True)
        if is_usable(b) and is_usable(c)
    ]
    arm_b, arm_c = [b for b, _ in pairs], [c for _, c in pairs]
    return {
        **_t_fields(paired.paired_t(arm_b, arm_c)),
        "n_used": len(pairs),
        "missing": len(given["baseline"]) - len(pairs),
    }


def tost_welch(given: Input) -> Answer:
    """Two one-sided Welch tests."""
    return _equivalence(welch.welch(given["baseline"], given["candidate"]), given["margin"])


def tost_paired(given: Input) -> Answer:
    """Two one-sided paired t tests."""
    return _equivalence(paired.paired_t(given["baseline"], given["candidate"]), given["margin"])


def rao_scott(given: Input) -> Answer:
    """Two pass rates with several runs per scenario."""
    passes_b, passes_c = given["pass_counts_baseline"], given["pass_counts_candidate"]
    runs_b, runs_c = (
        runs_of(given["epochs"], length=len(passes)) for passes in (passes_b, passes_c)
    )
    result = binary.rao_scott_z(passes_b, runs_b, passes_c, runs_c)
    return {**result._asdict(), "n_eff": [result.runs_b, result.runs_c]}


def two_rates(given: Input) -> Answer:
    """Pooled z and Newcombe's intervals."""
    counts = _counts(given)
    result = binary.pooled_z(*counts)
    return {
        "delta": counts[2] / counts[3] - counts[0] / counts[1],
        "z": result.z,
        "p": result.p,
        "newcombe95": binary.newcombe_interval(*counts, confidence=0.95),
        "newcombe90": binary.newcombe_interval(*counts, confidence=0.90),
    }


def boschloo(given: Input) -> Answer:
    """Boschloo's exact test of a table whose columns are arms."""
    result = binary.boschloo_test(*_table(given))
    return {"fisher_stat": result.fisher_statistic, "p": result.p}


def fisher(given: Input) -> Answer:
    """Fisher's exact test."""
    return {"p": binary.fisher_p(*_table(given))}


def switch(given: Input) -> Answer:
    """Which test two pass rates get, and its p."""
    result = binary.rate_test(*_counts(given))
    return {"method": result.method, "E_min": result.expected_least, "p": result.p}


def mcnemar(given: Input) -> Answer:
    """McNemar's tests."""
    return {**binary.mcnemar(given["pass_to_fail"], given["fail_to_pass"])._asdict()}


def adjust(given: Input) -> Answer:
    """Holm's and Benjamini and Hochberg's corrections."""
    holm, bh = multiplicity.holm(given["p"]), multiplicity.benjamini_hochberg(given["p"])
    return {
        "holm": holm,
        "bh": bh,
        "holm_reject_05": sum(p <= 0.05 for p in holm),
        "bh_reject_05": sum(p <= 0.05 for p in bh),
    }


def verdict_mean(given: Input) -> Answer:
    """The rule, from an effect, its standard error and degrees of freedom."""
    delta, se, df = given["delta"], given["se"], given["df"]
    p, mde = two_sided_t(delta / se, df=df), power.mde_t(se=se, df=df, alpha=given["alpha"])
    lower = t_interval(delta, se=se, df=df, confidence=0.90).low
    result = _decide(given, delta=delta, p=p, lower=lower, mde=mde)
    return {**result, "mde80": mde, "underpowered": mde > given["floor"]}


def verdict_binary(given: Input) -> Answer:
    """The rule, from two pass rates."""
    x_b, n_b, x_c, n_c = counts = _counts(given)
    lower = binary.newcombe_interval(*counts, confidence=0.90).low
    p, delta = binary.rate_test(*counts).p, x_c / n_c - x_b / n_b
    mde = power.mde_rates((x_b + x_c) / (n_b + n_c), n_b, n_c, alpha=given["alpha"])
    result = _decide(given, delta=delta, p=p, lower=lower, mde=mde)
    return {**result, "delta": delta, "mde80": mde}


def fold_rubrics(given: Input) -> Answer:
    """The word for the check."""
    rubrics = [_fold_input(rubric) for rubric in given["rubrics"]]
    return {"conclusion": fold.fold(rubrics, protected=TIERS[given["tier"]]).word}


def exceedance_test(given: Input) -> Answer:
    """The exact test of two tails."""
    result = exceedance.exceedance(given["baseline"], given["candidate"], q=given["q"])
    return {**result._asdict(), "p95_b": result.quantile_b, "p95_c": result.quantile_c}


FUNCTIONS: dict[str, Callable[[Input], Answer]] = {
    "welch": welch_test,
    "welch_from_stats": welch_from_stats,
    "welch_summary_of_sample": sample_answers.sample_summary,
    "paired_t": paired_test,
    "tost_welch": tost_welch,
    "tost_paired": tost_paired,
    "cluster_se_mean": sample_answers.cluster_mean,
    "rao_scott_z": rao_scott,
    "two_prop": two_rates,
    "boschloo_two_sided": boschloo,
    "fisher_two_sided": fisher,
    "switch": switch,
    "mcnemar": mcnemar,
    "wilson": sample_answers.wilson,
    "adjust": adjust,
    "verdict_mean": verdict_mean,
    "verdict_binary": verdict_binary,
    "fold": fold_rubrics,
    "power_t_two_sample": sample_answers.power_two_sample,
    "power_t_paired": sample_answers.power_paired,
    "power_prop_arcsine": sample_answers.power_arcsine,
    "mde_paired_exact": sample_answers.mde_paired,
    "mde_prop": sample_answers.mde_rates,
    "harrell_davis": sample_answers.harrell_davis,
    "p95": sample_answers.p95,
    "order_stat_ci": sample_answers.order_statistic_interval,
    "order_stat_bounds": sample_answers.order_statistic_ranks,
    "quantile_test": sample_answers.quantile_test,
    "exceedance": exceedance_test,
    "ceiling": sample_answers.ceiling,
    "icc_oneway": sample_answers.icc_one_way,
    "nested_anova": sample_answers.nested_anova,
    "cohen_kappa": sample_answers.cohen_kappa,
    "fleiss_kappa": sample_answers.fleiss_kappa,
    "flip_rate": sample_answers.flip_rate,
    "spearman_brown": sample_answers.spearman_brown,
    "bernoulli_cusum": sample_answers.bernoulli_cusum,
}


def _t_fields(test: welch.TTest) -> Answer:
    return {**test._asdict(), "reason": test.edge}


def _equivalence(test: welch.TTest, margin: float) -> Answer:
    if test.delta is None or test.se is None or test.df is None:
        return {"p": None, "p_lower": None, "p_upper": None}
    return {**welch.equivalence(test.delta, se=test.se, df=test.df, margin=margin)._asdict()}


def _decide(given: Input, *, delta: float, p: float, lower: float, mde: float) -> Answer:
    result = decision.decide(
        delta=delta,
        p=p,
        lower95=lower,
        mde80=mde,
        floor=given["floor"],
        ni_margin=given["ni_margin"],
        alpha=given["alpha"],
    )
    return {"verdict": result.verdict, "p": p, "lower95_one_sided": lower}


def _counts(given: Input) -> tuple[int, int, int, int]:
    return given["x_b"], given["n_b"], given["x_c"], given["n_c"]


def _table(given: Input) -> tuple[int, int, int, int]:
    (x_b, x_c), (rest_b, rest_c) = given["table"]
    return x_b, x_b + rest_b, x_c, x_c + rest_c


def _fold_input(rubric: Input) -> fold.FoldInput:
    word, triage = rubric["verdict"], rubric.get("triage")
    seen = FOLD_WORDS.get(word) or fold.FoldInput(verdict=Verdict(word))
    return replace(
        seen,
        gate=Gate(rubric.get("gate", Gate.BLOCK)),
        confirmed=rubric.get("confirmed"),
        triage=None if triage is None else fold.Triage(triage),
    )
