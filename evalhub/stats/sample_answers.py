"""One sample or one number by the name that a file of known answers calls it, in JSON's types.

Each function takes a case's `input` and returns the fields that a case may expect.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evalhub.stats import binary, clusters, exceedance, power, quantiles, reliability, trend, welch

Input = Mapping[str, Any]
Answer = dict[str, object]

REPEATED = re.compile(r"(?P<first>[\d.]+) followed by (?P<times>\d+) x \((?P<rest>[\d., ]+)\)")
EXP_SEQUENCE = re.compile(r"exp\(seq\((?P<start>[\d.]+),(?P<stop>[\d.]+),by=(?P<step>[\d.]+)\)\)")


def runs_of(given: int | Sequence[int], *, length: int) -> list[int]:
    """Return one count for each of `length` units, from one number or a list."""
    return [given] * length if isinstance(given, int) else list(given)


def sample_summary(given: Input) -> Answer:
    """Size, mean and standard deviation of one sample."""
    result = welch.summary(_sample(given, key="sample"))
    return {"n": result.n, "mean": result.mean, "sd": result.sd}


def cluster_mean(given: Input) -> Answer:
    """A mean with clustered standard errors."""
    result = clusters.clustered_mean(given["y"], clusters=given["scenario"])
    return {**result._asdict(), "G": result.clusters}


def wilson(given: Input) -> Answer:
    """Wilson's interval."""
    return {"ci": binary.wilson_interval(given["x"], given["n"], confidence=given["level"])}


def power_two_sample(given: Input) -> Answer:
    """Power of the two-sample t test."""
    result = power.power_t_two_sample(
        given["d"], n=given["n"], alpha=given["alpha"], sides=given["sides"]
    )
    return {"power": result}


def power_paired(given: Input) -> Answer:
    """Power of the paired t test."""
    result = power.power_t_paired(
        given["d"], n=given["n"], alpha=given["alpha"], sides=given["sides"]
    )
    return {"power": result}


def power_arcsine(given: Input) -> Answer:
    """Power of a test of two pass rates."""
    result = power.power_rates_arcsine(
        given["h"], n=given["n"], alpha=given["alpha"], alternative=given["alternative"]
    )
    return {"power": result}


def mde_paired(given: Input) -> Answer:
    """The smallest visible difference of pairs, exact and in closed form."""
    n, sd, alpha, wanted = given["n"], given["sd_diff"], given["alpha"], given["power"]
    return {
        "mde": power.mde_paired_exact(n=n, sd=sd, alpha=alpha, power=wanted),
        "mde_approx": power.mde_t(se=sd / n**0.5, df=n - 1, alpha=alpha, power=wanted),
    }


def mde_rates(given: Input) -> Answer:
    """The smallest visible difference of two pass rates."""
    result = power.mde_rates(
        given["p"],
        given["n_b"],
        given["n_c"],
        deff=given["deff"],
        alpha=given["alpha"],
        power=given["power"],
    )
    return {"mde": result}


def harrell_davis(given: Input) -> Answer:
    """Harrell and Davis' quantiles."""
    return {"q": [quantiles.harrell_davis(given["x"], q) for q in given["q"]]}


def p95(given: Input) -> Answer:
    """Two estimates of the 95 % quantile."""
    return {
        "linear": quantiles.quantile(given["x"], 0.95),
        "harrell_davis": quantiles.harrell_davis(given["x"], 0.95),
    }


def order_statistic_interval(given: Input) -> Answer:
    """The distribution-free interval of a quantile."""
    result = quantiles.order_statistic_interval(
        _sample(given, key="x"),
        q=given["q"],
        confidence=given["level"],
        alternative=given["alternative"],
    )
    return {**result._asdict()}


def order_statistic_ranks(given: Input) -> Answer:
    """The ranks that bound a quantile."""
    result = quantiles.rank_bounds(given["n"], q=given["q"], confidence=given["conf"])
    return {"upper_rank": result.upper, "lower_rank": result.lower}


def quantile_test(given: Input) -> Answer:
    """The test that a quantile has a value."""
    return {"p": quantiles.quantile_test_p(given["x"], value=given["q0"], q=given["p"])}


def ceiling(given: Input) -> Answer:
    """The test of runs over a ceiling."""
    result = exceedance.ceiling_test(
        given["k_over"], given["n"], q=given["q"], alpha=given["alpha"]
    )
    return {**result._asdict()}


def icc_one_way(given: Input) -> Answer:
    """The reliability of one judgment."""
    return {**reliability.one_way(given["groups"])._asdict()}


def nested_anova(given: Input) -> Answer:
    """The variance of scenarios, runs and judge."""
    result = reliability.nested_components(_judged_runs(given))
    scenario, run, judge = result.truncated
    return {
        "ms": result.mean_squares,
        "raw": result.raw,
        "truncated": result.truncated,
        "var_scenario": scenario,
        "var_run": run,
        "var_judge": judge,
    }


def cohen_kappa(given: Input) -> Answer:
    """The agreement of two judges."""
    return {**reliability.cohen_kappa(given["table"])._asdict()}


def fleiss_kappa(given: Input) -> Answer:
    """The agreement of many judges."""
    return {**reliability.fleiss_kappa(given["counts"])._asdict()}


def flip_rate(given: Input) -> Answer:
    """How often two judgments disagree."""
    return {"flip": reliability.flip_rate(given["passes"], judged=given["n"])}


def spearman_brown(given: Input) -> Answer:
    """The reliability of a mean of judgments."""
    return {"icck": reliability.spearman_brown(given["icc1"], repeats=given["k"])}


def bernoulli_cusum(given: Input) -> Answer:
    """The evidence that a match rate has dropped."""
    matches = given["matches"]
    result = trend.bernoulli_cusum(
        matches,
        probes=runs_of(given["n"], length=len(matches)),
        p0=given["p0"],
        p1=given["p1"],
        limit=given["h"],
    )
    return {"S": result.statistic, "alarm_index": result.alarm}


def _judged_runs(given: Input) -> list[reliability.JudgedRun]:
    if "rows" in given:
        return [reliability.JudgedRun(*row) for row in given["rows"]]
    return [
        reliability.JudgedRun(str(scenario), str(run), float(value))
        for scenario, runs in enumerate(given["scenario_run_judge"])
        for run, repeats in enumerate(runs)
        for value in repeats
    ]


def _sample(given: Input, *, key: str) -> list[float]:
    """Return a sample that is listed, or described by one of two sentences."""
    if key in given:
        return list(given[key])
    description = given[f"{key}_spec"]
    repeated = REPEATED.search(description)
    if repeated is not None:
        rest = [float(value) for value in repeated["rest"].split(",")]
        return [float(repeated["first"]), *rest * int(repeated["times"])]
    sequence = EXP_SEQUENCE.search(description)
    if sequence is None:
        raise ValueError(f"The sample {description!r} is not described in a known way.")
    start, stop, step = (float(sequence[name]) for name in ("start", "stop", "step"))
    steps = round((stop - start) / step)
    return [float(value) for value in np.exp(start + step * np.arange(steps + 1))]
