"""The rule: from an effect and its uncertainty to one word."""

from typing import NamedTuple

from evalhub.stats.reasons import Reason, Verdict

# 45/50 - 50/50 is -0.09999999999999998 and must meet a floor of 0.10.
FLOOR_TOLERANCE = 1e-9


class Decision(NamedTuple):
    """A verdict and what led to it or limits it."""

    verdict: Verdict
    reasons: tuple[Reason, ...] = ()


def decide(  # noqa: PLR0913 (the rule's eight numbers, all by name)
    *,
    delta: float,
    p: float,
    lower95: float | None,
    mde80: float | None,
    floor: float,
    ni_margin: float,
    alpha: float = 0.05,
    may_improve: bool = True,
) -> Decision:
    """Return the verdict on `delta` (goodness units: negative is worse), by these rules in order.

    REGRESSION: p < alpha and the drop reaches the floor. IMPROVEMENT: the same upward.
    PASS: the one-sided 95 % lower bound shows that no drop of the margin happened; a significant
    effect below the floor passes too, and is flagged. INCONCLUSIVE otherwise: UNDERPOWERED when
    the data could not have seen the floor, else BORDERLINE.
    """
    significant = p < alpha
    if significant and delta <= -floor + FLOOR_TOLERANCE:
        return Decision(Verdict.REGRESSION)
    if significant and delta >= floor - FLOOR_TOLERANCE and may_improve:
        return Decision(Verdict.IMPROVEMENT)
    if lower95 is not None and lower95 > -ni_margin + FLOOR_TOLERANCE:
        small = significant and abs(delta) < floor - FLOOR_TOLERANCE
        return Decision(Verdict.PASS, (Reason.BELOW_FLOOR_EFFECT,) if small else ())
    if mde80 is None or mde80 > floor:
        return Decision(Verdict.INCONCLUSIVE, (Reason.UNDERPOWERED,))
    return Decision(Verdict.INCONCLUSIVE, (Reason.BORDERLINE,))
