"""What this much data could have seen: power and the smallest effect with 80 % power."""

from math import ceil, isfinite, sqrt

import scipy

from evalhub.stats.intervals import normal_quantile, normal_tail, t_quantile

# A floor a thousand times finer than what is visible asks for a million times the scenarios.
LARGEST_RATIO = 1000.0


def mde_t(*, se: float, df: float, alpha: float = 0.05, power: float = 0.80) -> float:
    """Return the smallest difference that a two-sided t test sees with `power`, in units of `se`'s.

    The closed form (t + t)·se: within 2 % of the exact root from df = 3 on, and defined where
    scipy's noncentral t returns NaN.
    """
    return (t_quantile(1 - alpha / 2, df=df) + t_quantile(power, df=df)) * se


def mde_rates(
    rate: float,
    n_b: float,
    n_c: float,
    *,
    deff: float = 1.0,
    alpha: float = 0.05,
    power: float = 0.80,
) -> float:
    """Return the smallest difference of two pass rates that is seen with `power` (0 to 1).

    Raises:
        ValueError: for a rate outside 0 to 1, or an arm without trials.
    """
    if not 0 <= rate <= 1 or min(n_b, n_c) <= 0:
        raise ValueError(f"A rate of {rate} with {n_b} and {n_c} trials has no power to speak of.")
    z = normal_quantile(1 - alpha / 2) + normal_quantile(power)
    return z * sqrt(rate * (1 - rate) * (1 / n_b + 1 / n_c) * deff)


def scenarios_required(n: float, *, mde: float, floor: float) -> int | None:
    """Return how many scenarios would see a drop of `floor`, given that `n` see one of `mde`.

    None where no suite could be that large.

    >>> scenarios_required(24, mde=0.08, floor=0.05)
    62
    """
    ratio = mde / floor
    if ratio > LARGEST_RATIO:
        return None
    # Rounded first, so that 4.000000000000001 does not ask for a fifth scenario.
    return ceil(round(n * ratio**2, 9))


def power_t_two_sample(effect: float, *, n: int, alpha: float = 0.05, sides: int = 2) -> float:
    """Return the power of a two-sample t test with `n` per arm at `effect` standard deviations.

    Raises:
        ValueError: for fewer than two per arm, or sides other than 1 and 2.
    """
    return _power_t(effect * sqrt(n / 2), df=2 * n - 2, alpha=alpha, sides=sides)


def power_t_paired(effect: float, *, n: int, alpha: float = 0.05, sides: int = 2) -> float:
    """Return the power of a paired t test with `n` pairs at `effect` sd of the differences.

    Raises:
        ValueError: for fewer than two pairs, or sides other than 1 and 2.
    """
    return _power_t(effect * sqrt(n), df=n - 1, alpha=alpha, sides=sides)


def power_rates_arcsine(
    h: float, *, n: int, alpha: float = 0.05, alternative: str = "two-sided"
) -> float:
    """Return the power of a test of two pass rates at Cohen's `h`, `n` per arm.

    Raises:
        ValueError: for an alternative other than two-sided, greater and less.
    """
    shift = h * sqrt(n / 2)
    if alternative == "greater":
        return normal_tail(normal_quantile(1 - alpha) - shift)
    if alternative == "less":
        return normal_tail(normal_quantile(1 - alpha) + shift)
    if alternative != "two-sided":
        raise ValueError(f"{alternative!r} is not two-sided, greater or less.")
    critical = normal_quantile(1 - alpha / 2)
    return normal_tail(critical - shift) + normal_tail(critical + shift)


def mde_paired_exact(*, n: int, sd: float, alpha: float = 0.05, power: float = 0.80) -> float:
    """Return the exact smallest mean difference of `n` pairs that is seen with `power`.

    For planning and as a check of `mde_t`; `sd` is the standard deviation of the differences.

    Raises:
        ValueError: for fewer than two pairs, or a spread that is not above 0.
    """
    if n < 2 or sd <= 0:
        raise ValueError(f"{n} pairs with a spread of {sd} have no smallest visible difference.")

    def shortfall(effect: float) -> float:
        return power_t_paired(effect, n=n, alpha=alpha) - power

    highest = 1.0
    while shortfall(highest) < 0:
        highest *= 2
    return float(scipy.optimize.brentq(shortfall, 0.0, highest, xtol=1e-12, rtol=1e-12)) * sd


def _power_t(noncentrality: float, *, df: float, alpha: float, sides: int) -> float:
    if df < 1 or sides not in (1, 2):
        raise ValueError(f"A t test with {df} degrees of freedom and {sides} sides is none.")
    critical = t_quantile(1 - alpha / sides, df=df)
    power = _noncentral_tail(critical, df=df, noncentrality=noncentrality)
    if sides == 1:
        return power
    return power + _noncentral_tail(critical, df=df, noncentrality=-noncentrality)


def _noncentral_tail(t: float, *, df: float, noncentrality: float) -> float:
    """Return P(T > t) for a noncentral t."""
    below = float(scipy.special.nctdtr(df, noncentrality, t))
    if isfinite(below):
        return min(1.0, max(0.0, 1 - below))
    # Where scipy gives up, the normal approximation of Johnson and Welch 1940 is exact enough.
    return normal_tail((t * (1 - 1 / (4 * df)) - noncentrality) / sqrt(1 + t * t / (2 * df)))
