"""What a comparison answers with: everything that a verdict says, and why."""

from dataclasses import dataclass
from typing import NamedTuple

from evalhub.stats.absolute import FloorTest, FloorVerdict
from evalhub.stats.blocks import Block
from evalhub.stats.exceedance import Ceiling, Exceedance, TailInformation
from evalhub.stats.intervals import Interval
from evalhub.stats.missing import Missingness
from evalhub.stats.reasons import EVIDENCE_REASONS, Reason, Verdict
from evalhub.stats.rubric import Design, MeanRubric, TailRubric


class Confirmation(NamedTuple):
    """Whether a REGRESSION stands among all blocking rubrics; None for any other verdict."""

    p_holm: float | None
    confirmed: bool | None


@dataclass(frozen=True, kw_only=True)
class MeanComparison:
    """The comparison of one mean rubric in one slice. None means not defined, never 0.

    `delta`, `se`, `ci95`, `lower95`, `floor`, `ni_margin` and `mde80` are in goodness units
    (negative is worse); the means and `abs_floor` in the rubric's own. Statistics are those of the
    block named by `decided_by`; where neither may decide they are None and only the blocks tell.
    """

    rubric: MeanRubric
    verdict: Verdict
    reasons: tuple[Reason, ...]
    decided_by: Design | None
    unpaired: Block
    paired: Block | None
    n_baseline: int
    n_candidate: int
    n_pairs: int
    runs_baseline: int
    runs_candidate: int
    missing_baseline: int
    missing_candidate: int
    missingness: Missingness | None
    agent_errors_baseline: int
    agent_errors_candidate: int
    abs_floor: FloorTest | None
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    mean_baseline: float | None
    mean_candidate: float | None
    delta: float | None
    se: float | None
    df: float | None
    statistic: float | None
    p: float | None
    ci95: Interval | None
    ci90: Interval | None
    mde80: float | None
    n_required: int | None
    p_floor: float | None
    tost_p: float | None

    @property
    def lower95(self) -> float | None:
        """The one-sided 95 % lower bound of `delta`, which a PASS needs above -ni_margin."""
        return None if self.ci90 is None else self.ci90.low

    @property
    def floor(self) -> float:
        """The smallest drop that counts as a regression."""
        return self.rubric.min_effect

    @property
    def ni_margin(self) -> float:
        """The drop that a PASS must exclude."""
        return self.rubric.margin

    @property
    def below_floor(self) -> bool:
        """True when the candidate's mean is shown to be below the absolute floor."""
        return self.abs_floor is not None and self.abs_floor.verdict is FloorVerdict.BELOW_FLOOR

    @property
    def equivalent(self) -> bool | None:
        """True when both a drop and a gain of the margin are excluded; None where untestable."""
        return None if self.tost_p is None else self.tost_p < self.rubric.alpha


@dataclass(frozen=True, kw_only=True)
class TailComparison:
    """The comparison of one tail rubric in one slice; quantiles are in the rubric's own units.

    The test is one-sided, so the verdict is never IMPROVEMENT. `regression`, `breach` and
    `safety_shown` are independent: a candidate may pass the relative test and breach the ceiling.
    """

    rubric: TailRubric
    verdict: Verdict
    reasons: tuple[Reason, ...]
    test: Exceedance | None
    p_non_inferior: float | None
    ceiling: Ceiling | None
    information: TailInformation | None
    n_baseline: int
    n_candidate: int
    runs_baseline: int
    runs_candidate: int
    missing_baseline: int
    missing_candidate: int
    missingness: Missingness | None
    quantile_baseline: float | None
    quantile_candidate: float | None
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def p(self) -> float | None:
        """The one-sided p of the relative test, for Holm's family."""
        return None if self.test is None else self.test.p_tail

    @property
    def regression(self) -> bool:
        """True when the tail is significantly and materially worse than the baseline's."""
        return self.verdict is Verdict.REGRESSION

    @property
    def breach(self) -> bool:
        """True when too many candidate runs are over the ceiling."""
        return self.ceiling is not None and self.ceiling.verdict == "CEILING_BREACH"

    @property
    def safety_shown(self) -> bool:
        """True when the tail is shown not to be worse, and under the ceiling where there is one."""
        under = self.ceiling is None or self.ceiling.verdict == "PASS"
        return self.verdict is Verdict.PASS and under

    @property
    def left_out(self) -> bool:
        """True when neither harm nor safety is shown: the fold leaves it out and names it."""
        return (
            self.verdict is Verdict.INCONCLUSIVE
            and Reason.SAFETY_NOT_SHOWN in self.reasons
            and not EVIDENCE_REASONS.intersection(self.reasons)
            and not self.breach
            and not self.rubric.require_non_inferiority
        )
