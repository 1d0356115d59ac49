"""Which plans a generated store has, over a year: who asked for them, what came of each. Pure."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from evalhub.growth.documents import SHAPES, Shape
from lanes.plans.models import AttemptState, PlanState

YEAR = timedelta(days=365)
_PULL_REQUESTS, _NIGHTS = 0.65, 0.2
"""Shares of the plans; the rest are pushes."""
_ANOTHER_HEAD = 0.5
"""How often a pull request gets one more commit."""
_SAME_COMMIT = 0.03
_CANCELLED = 0.01
_RETRIED = 0.08
"""Share of the lanes that were run again; what their first attempt brought stays."""
_AT_WORK = timedelta(minutes=40)
"""For how long at most the newest plan has been at work: less than its deadline."""


class Profile(StrEnum):
    """How a plan's agent does, against the baseline."""

    FIRST = "first"
    """The first of its suite: there is nothing to compare it with."""
    STEADY = "steady"
    IMPROVED = "improved"
    REGRESSED = "regressed"
    SLOWER = "slower"
    LOST_LANE = "lost_lane"
    """One lane's machine died before it had delivered everything."""


_SHARES = {
    Profile.STEADY: 0.58,
    Profile.IMPROVED: 0.1,
    Profile.REGRESSED: 0.15,
    Profile.SLOWER: 0.1,
    Profile.LOST_LANE: 0.07,
}


class Try(NamedTuple):
    """An attempt of a lane: how many of the lane's run keys it brought, in what state it is."""

    lane: int
    number: int
    delivered: int
    state: AttemptState


@dataclass(kw_only=True, slots=True)
class Case:
    """One plan to be. Times are set when it is known how many plans there are."""

    index: int
    project: int
    shape: Shape
    profile: Profile
    event: str
    ref: str
    pull_request: int | None
    head_sha: str
    tested_sha: str
    base_sha: str
    tries: list[Try]
    state: PlanState = PlanState.CONCLUDED
    is_cancelled: bool = False
    at: datetime = datetime.min  # noqa: DTZ901 - never read before it is set
    superseded_at: datetime | None = None

    @property
    def runs(self) -> int:
        return sum(one.delivered for one in self.tries)

    @property
    def is_nightly(self) -> bool:
        return self.event == "schedule"


@dataclass
class _Suite:
    """Where one suite of one project is, while the plans are made one after the other."""

    head: str = "0" * 40
    """Of the default branch."""
    pull_request: int = 0
    last: Case | None = None
    heads: dict[object, Case] = field(default_factory=dict)
    """The newest plan by pull request, or by event of the default branch."""


def schedule(*, runs: int, seed: int, projects: int, until: datetime) -> list[Case]:
    """Return plans with exactly `runs` runs in order of time; the newest ones are still at work."""
    rng = np.random.default_rng([seed, 0])
    suites = {(p, shape.suite): _Suite() for p in range(projects) for shape in SHAPES}
    cases: list[Case] = []
    left = runs
    while left:
        # The first plans see to it that every suite of every project has one.
        n = len(cases)
        project = n // len(SHAPES) if n < len(suites) else int(projects * rng.random() ** 1.5)
        shape = SHAPES[n % len(SHAPES) if n < len(suites) else int(rng.integers(len(SHAPES)))]
        case = _case(n, project, shape, suites[project, shape.suite], rng)
        if case.runs >= left:
            case.state, case.profile = PlanState.RUNNING, Profile.STEADY
            case.tries = _cut(case, left)
        left -= case.runs
        cases.append(case)
    _set_times(cases, until=until)
    return cases


def _case(index: int, project: int, shape: Shape, suite: _Suite, rng: np.random.Generator) -> Case:
    is_first = suite.last is None
    profile = Profile.FIRST if is_first else Profile(str(rng.choice(list(_SHARES), p=_P)))
    draw = _PULL_REQUESTS if is_first else rng.random()
    sha, pull_request = rng.bytes(20).hex(), None
    head, tested, base = sha, sha, suite.head
    if draw < _PULL_REQUESTS:
        if suite.pull_request == 0 or rng.random() > _ANOTHER_HEAD:
            suite.pull_request += 1
        event, pull_request = "pull_request", suite.pull_request
        ref, tested = f"refs/pull/{pull_request}/merge", rng.bytes(20).hex()
        again = suite.heads.get(pull_request)
        if again is not None and rng.random() < _SAME_COMMIT:
            head, tested, base = again.head_sha, again.tested_sha, again.base_sha
    else:
        event = "schedule" if draw < _PULL_REQUESTS + _NIGHTS else "push"
        ref, suite.head = "refs/heads/main", sha
    case = Case(
        index=index,
        project=project,
        shape=shape,
        profile=profile,
        event=event,
        ref=ref,
        pull_request=pull_request,
        head_sha=head,
        tested_sha=tested,
        base_sha=base,
        tries=_tries(shape, profile, rng),
        is_cancelled=pull_request is not None and rng.random() < _CANCELLED,
    )
    suite.heads[pull_request or event] = suite.last = case
    return case


_P = list(_SHARES.values())


def _tries(shape: Shape, profile: Profile, rng: np.random.Generator) -> list[Try]:
    tries = []
    for n, lane in enumerate(shape.lanes):
        planned = len(shape.run_keys(lane))
        if profile is Profile.LOST_LANE and n == 0:
            tries.append(Try(n, 1, planned // 2, AttemptState.SILENT))
        elif rng.random() < _RETRIED:
            tries.append(Try(n, 1, planned // 3, AttemptState.SUPERSEDED))
            tries.append(Try(n, 2, planned, AttemptState.SEALED))
        else:
            tries.append(Try(n, 1, planned, AttemptState.SEALED))
    return tries


def _cut(case: Case, runs: int) -> list[Try]:
    """Return the attempts of a plan that is still at work, with `runs` runs delivered so far."""
    tries = []
    for n, lane in enumerate(case.shape.lanes):
        delivered = min(len(case.shape.run_keys(lane)), runs)
        runs -= delivered
        tries.append(Try(n, 1, delivered, AttemptState.OPEN))
    return tries


def _set_times(cases: list[Case], *, until: datetime) -> None:
    pause = YEAR / len(cases)
    newest: dict[tuple[object, ...], Case] = {}
    for case in cases:
        behind = pause * (len(cases) - case.index - 0.5)
        if case.state == PlanState.RUNNING:
            behind = min(behind, _AT_WORK)
        case.at = until - timedelta(seconds=round(behind.total_seconds()))
        place = (case.project, case.shape.suite, case.event, case.pull_request)
        earlier = newest.get(place)
        if earlier is not None and earlier.head_sha != case.head_sha:
            earlier.superseded_at = case.at
        newest[place] = case
