"""What is scored and by which rule, and one run's score: the input of every comparison."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite
from typing import NamedTuple


class Kind(StrEnum):
    """How the values of a mean rubric are distributed."""

    CONTINUOUS = "continuous"
    BINARY = "binary"


class Direction(StrEnum):
    """Which way is better."""

    HIGHER_IS_BETTER = "higher_is_better"
    LOWER_IS_BETTER = "lower_is_better"


class Design(StrEnum):
    """Which of the two comparisons decides."""

    AUTO = "auto"
    PAIRED = "paired"
    UNPAIRED = "unpaired"


class Sampling(StrEnum):
    """Whether both arms ran one fixed list of scenarios, or each drew its own."""

    FIXED_SUITE = "fixed_suite"
    RANDOM_DRAW = "random_draw"


class Gate(StrEnum):
    """What a rubric may do to the check."""

    BLOCK = "block"
    WARN = "warn"
    INFO = "info"


class ValueType(StrEnum):
    """What a tail rubric measures: seconds and money, or whole numbers."""

    REAL = "real"
    COUNT = "count"


class RunStatus(StrEnum):
    """Why a run has the value that it has, or none."""

    OK = "ok"
    AGENT_ERROR = "agent_error"
    JUDGE_ERROR = "judge_error"
    JUDGE_REFUSED = "judge_refused"
    INFRA_ERROR = "infra_error"
    NOT_JUDGED = "not_judged"
    NOT_COMPARABLE = "not_comparable"
    UNMEASURED = "unmeasured"


class RunScore(NamedTuple):
    """The score of one run on one rubric, in the rubric's own units.

    Repeats of the judge are averaged before. `value` counts when `status` is `ok`; a run that ended
    in `agent_error` is an outcome at the worst end of the scale; every other status is missing.
    `scenario` is None where there is nothing to pair by: then each run stands for itself.
    `batch` names the run of the whole suite that this one belongs to (for batch noise).

    A named tuple, not a dataclass: a million of them turn into columns in a tenth of a second.
    """

    scenario: str | None
    digest: str
    epoch: int
    value: float | None
    status: RunStatus = RunStatus.OK
    batch: str | None = None


class Scale(NamedTuple):
    """The lowest and the highest value that a rubric can have."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class MeanRubric:
    """A rubric whose mean matters. `min_effect` is the floor: the smallest drop that counts.

    Floors and margins are in rubric units, for a binary rubric in proportion points (0.10 is ten
    points); `abs_floor` is the worst acceptable mean, which is an upper limit where lower is better.

    Raises:
        ValueError: for a floor, margin, scale or share that no comparison could use.
    """

    key: str
    kind: Kind
    min_effect: float
    direction: Direction = Direction.HIGHER_IS_BETTER
    ni_margin: float | None = None
    alpha: float = 0.05
    scale: Scale | None = None
    abs_floor: float | None = None
    gate: Gate = Gate.BLOCK
    design: Design = Design.AUTO
    scenario_sampling: Sampling = Sampling.FIXED_SUITE
    max_missing: float = 0.05

    def __post_init__(self) -> None:
        _require_positive(self.key, "min_effect", self.min_effect)
        if self.ni_margin is not None:
            _require_positive(self.key, "ni_margin", self.ni_margin)
        _require_share(self.key, "alpha", self.alpha)
        _require_missing_share(self.key, self.max_missing)
        if self.scale is not None and not -inf < self.scale[0] < self.scale[1] < inf:
            raise ValueError(
                f"Rubric {self.key!r} has the scale {list(self.scale)}; expected [low, high] with low < high."
            )
        if self.abs_floor is not None and not isfinite(self.abs_floor):
            raise ValueError(
                f"Rubric {self.key!r} has abs_floor {self.abs_floor}; expected a number."
            )

    @property
    def margin(self) -> float:
        """The non-inferiority margin: `min_effect` unless the policy says otherwise."""
        return self.min_effect if self.ni_margin is None else self.ni_margin

    @property
    def limits(self) -> Scale | None:
        """The scale; a binary rubric has 0 to 1 without saying so."""
        return Scale(0.0, 1.0) if self.kind is Kind.BINARY else self.scale

    @property
    def sign(self) -> int:
        """1 where higher is better, else -1: times a value, goodness."""
        return 1 if self.direction is Direction.HIGHER_IS_BETTER else -1

    @property
    def goodness_limits(self) -> Scale | None:
        """The scale in goodness units: `low` is the worst value, `high` the best."""
        limits = self.limits
        if limits is None:
            return None
        if self.kind is Kind.BINARY:
            return Scale(0.0, 1.0)
        return Scale(*sorted((self.sign * limits[0], self.sign * limits[1])))

    def goodness(self, value: float) -> float:
        """Turn a value or a mean in rubric units into goodness, and back (it undoes itself).

        A binary rubric where lower is better (a violation) becomes its complement, so that
        goodness stays a pass rate.
        """
        if self.kind is Kind.BINARY and self.sign < 0:
            return 1.0 - value
        return self.sign * value


@dataclass(frozen=True, kw_only=True)
class TailRubric:
    """A rubric whose upper tail matters (latency, cost, steps); larger is worse.

    `rel_tol` and `abs_tol` are the floor of a relative regression, `ni_tol` the growth that counts
    as harmless, `ceiling` the limit that a share `q` of runs must stay under. With
    `higher_is_better` values are negated first, and the ceiling is a lowest acceptable value.

    Raises:
        ValueError: for a share or tolerance that no comparison could use.
    """

    key: str
    q: float = 0.95
    rel_tol: float = 0.20
    abs_tol: float = 0.0
    ceiling: float | None = None
    ni_tol: float = 0.50
    value_type: ValueType = ValueType.REAL
    direction: Direction = Direction.LOWER_IS_BETTER
    alpha: float = 0.05
    gate: Gate = Gate.BLOCK
    scenario_sampling: Sampling = Sampling.FIXED_SUITE
    max_missing: float = 0.05
    require_non_inferiority: bool = False

    def __post_init__(self) -> None:
        _require_share(self.key, "q", self.q)
        _require_share(self.key, "alpha", self.alpha)
        _require_missing_share(self.key, self.max_missing)
        _require_positive(self.key, "ni_tol", self.ni_tol)
        for name, value in (("rel_tol", self.rel_tol), ("abs_tol", self.abs_tol)):
            if not (isfinite(value) and value >= 0):
                raise ValueError(f"Rubric {self.key!r} has {name} {value}; expected 0 or more.")
        if self.ceiling is not None and not isfinite(self.ceiling):
            raise ValueError(f"Rubric {self.key!r} has ceiling {self.ceiling}; expected a number.")

    @property
    def sign(self) -> int:
        """1 where larger is worse, else -1: times a value, badness."""
        return 1 if self.direction is Direction.LOWER_IS_BETTER else -1


def _require_positive(key: str, name: str, value: float) -> None:
    if not (isfinite(value) and value > 0):
        raise ValueError(f"Rubric {key!r} has {name} {value}; expected a number above 0.")


def _require_share(key: str, name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"Rubric {key!r} has {name} {value}; expected a number between 0 and 1.")


def _require_missing_share(key: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"Rubric {key!r} has max_missing {value}; expected a share from 0 to 1.")
