"""Write a whole store: projects, and plan after plan with what came of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction

from evalhub.growth import conclusions
from evalhub.growth.documents import POOL, PlanFacts, policy_document, suite_document
from evalhub.growth.plan_rows import TOOK, Place, WrittenPlan
from evalhub.growth.rows import Rows
from evalhub.growth.schedule import YEAR, Case, Profile, schedule
from evalhub.growth.tables import moment
from evalhub.protocol.canonical import bytes_digest, canonical_bytes
from evalhub.web.errors import DomainError
from gates.checks.operations import summary
from gates.decisions.operations import words
from gates.verdicts.models import BaselineKind
from lanes.budget.models import Pool
from lanes.budget.operations import folding
from lanes.plans.models import Plan, PlanState, PolicyVersion, SuiteVersion
from lanes.projects.models import Project

LARGEST = 10_000_000
_RUNS_AT_ONCE = 4_000
_WITH_OBJECTS = 200
"""So many of the newest plans have their segments in the object store. Of older ones only the rows
are there: a run's page says that its object is missing."""
_POOL_MICROUSD = 10**15
_BY_HAND, _BY_POLICY = "user:generated", "policy"
_MAIN = "refs/heads/main"


class StoreNotEmptyError(DomainError):
    code = "store-not-empty"
    fix = "Name another data directory or database, or say --add."


class SeedUsedError(DomainError):
    code = "seed-used"
    fix = "Name another seed: this one would give the same plans again."


class MiscountedError(DomainError):
    status = 500
    code = "miscounted"
    fix = "Something else wrote at the same time: throw this store away and generate it alone."


@dataclass
class _Home:
    """A project, and what is current in it while its year goes by."""

    project: Project
    pool: Pool
    policies: dict[int, PolicyVersion] = field(default_factory=dict)
    """By half of the year."""
    suites: dict[tuple[str, int], SuiteVersion] = field(default_factory=dict)
    """By name and quarter."""
    baselines: dict[str, conclusions.Baseline] = field(default_factory=dict)
    """The newest of each suite."""
    heads: set[tuple[str, str]] = field(default_factory=set)
    """Suite and commit of every check."""


def refuse_used_store() -> None:
    """Raise StoreNotEmptyError if there is a project already."""
    project = Project.objects.order_by("pk").first()
    if project is not None:
        raise StoreNotEmptyError(f"The store has the project {project.name} already.")


def generate_store(
    *, runs: int, seed: int, projects: int, until: datetime, report: Callable[[int], None]
) -> dict[str, int]:
    """Write a store of `runs` runs, the year before `until`; return how many rows each table got.

    Equal arguments give equal rows in an empty store; in one that was generated with another seed,
    its projects grow. `report` hears how many runs are written. Nothing is checked as production
    checks each upload, so it is for stores that are thrown away.

    Raises:
        SeedUsedError: if a store of this seed is there already.
        MiscountedError: if a table did not grow by what was written.
    """
    if Plan.objects.filter(workflow_run_id=_workflow_run(seed, 0), ref=_MAIN).exists():
        raise SeedUsedError(f"The store has the plans of seed {seed} already.")
    year = _Year(seed=seed, projects=projects, begins_at=until - YEAR)
    before = year.rows.counts()
    cases = schedule(runs=runs, seed=seed, projects=projects, until=until)
    pending = done = 0
    for case in cases:
        year.add(case, keeps_objects=len(cases) - case.index <= _WITH_OBJECTS)
        pending += case.runs
        if pending >= _RUNS_AT_ONCE:
            year.rows.write()
            done, pending = done + pending, 0
            report(done)
    year.rows.write()
    while words.copy_newer_words() or folding.fold_pools():
        pass
    written = {table.name: table.written for table in year.rows.tables}
    for name, count in year.rows.counts().items():
        if count != before[name] + written[name]:
            raise MiscountedError(
                f"{name} has {count} rows; {before[name]} and {written[name]} were expected."
            )
    return written


class _Year:
    """The store while it is written."""

    def __init__(self, *, seed: int, projects: int, begins_at: datetime) -> None:
        self.rows = Rows()
        self._seed, self._begins_at = seed, begins_at
        self._models: dict[tuple[str, Profile], conclusions.Model] = {}
        self._homes = [_home(number, at=begins_at) for number in range(projects)]

    def add(self, case: Case, *, keeps_objects: bool) -> None:
        """Add a plan and everything that follows from it."""
        home = self._homes[case.project]
        quarter = int(4 * (case.at - self._begins_at) / YEAR)
        policy = home.policies.get(quarter // 2) or _new_policy(home, quarter // 2, case.at)
        suite = home.suites.get((case.shape.suite, quarter)) or _new_suite(home, case, quarter)
        facts = PlanFacts(
            home.project.name,
            home.project.repository_id,
            case.shape,
            quarter,
            suite.digest,
            policy.digest,
            *(case.event, case.ref, case.pull_request),
            *(case.head_sha, case.tested_sha, case.base_sha),
            _workflow_run(self._seed, case.index),
            case.at,
        )
        place = Place(home.project, policy, home.pool, facts, keeps_objects)
        plan = WrittenPlan(self.rows, case, place, seed=self._seed)
        if case.state == PlanState.CONCLUDED:
            self._conclude(case, home, plan, policy.digest)
        else:
            row = Plan(digest=plan.digest, generation=1, deadline_at=case.at + TOOK)
            output = summary.pending_output([row], has_begun=True)
            self._add_check(case, home, plan, output, word=None)

    def _conclude(self, case: Case, home: _Home, plan: WrittenPlan, policy: str) -> None:
        at, suite, rows = case.at + TOOK, case.shape.suite, self.rows
        key = suite, case.profile
        if key not in self._models:
            rows.write()
            self._models[key] = conclusions.evaluated(Plan.objects.get(pk=plan.pk), at=at)
        baseline = home.baselines.get(suite)
        evidence = plan.evidence_digest()
        told = conclusions.copied(
            self._models[key],
            conclusions.Names(
                plan=plan.digest,
                policy=policy,
                evidence=evidence,
                attempts=plan.attempts,
                baseline=baseline,
                at=at,
            ),
        )
        word, title = told.content["conclusion"], told.content["title"]
        conclusion_id = rows.conclusions.add(
            *(plan.pk, 1, plan.inputs_version, word, title),
            *(json.dumps(told.content), moment(at)),
        )
        for record in told.records:
            names = (record.arm, record.rubric, record.category, record.comparison, record.verdict)
            record_id = rows.records.add(
                plan.pk, record.digest, *names, json.dumps(record.content), moment(at)
            )
            rows.conclusion_records.add(conclusion_id, record_id)
        if baseline is not None:
            kind = BaselineKind.ROLLING.value
            rows.chosen.add(plan.pk, kind, baseline.plan_id, evidence, moment(at))
        if case.profile in (Profile.FIRST, Profile.STEADY) and case.pull_request is None:
            self._adopt(case, home, plan, at=at)
            home.baselines[suite] = conclusions.Baseline(plan.pk, plan.digest, evidence)
        self._add_check(case, home, plan, told.output, word=word)

    def _adopt(self, case: Case, home: _Home, plan: WrittenPlan, *, at: datetime) -> None:
        is_first = case.profile is Profile.FIRST
        actor = _BY_HAND if is_first else _BY_POLICY
        reason = "The first run, read by a person." if is_first else "Complete, no regression."
        kind, suite = BaselineKind.ROLLING.value, case.shape.suite
        self.rows.baselines.add(home.project.pk, suite, kind, plan.pk, actor, moment(at), reason)
        after: dict[str, object] = {"plan": plan.digest, "suite": suite, "kind": kind}
        plan.audit("baseline.adopt", plan.digest, after, at=at, actor=actor)

    def _add_check(
        self,
        case: Case,
        home: _Home,
        plan: WrittenPlan,
        output: summary.Output,
        *,
        word: str | None,
    ) -> None:
        suite, head = case.shape.suite, case.head_sha
        if (suite, head) in home.heads:
            return
        home.heads.add((suite, head))
        word = "cancelled" if case.is_cancelled else word
        ended_at = moment(case.at + TOOK) if word else None
        status = "completed" if word else "in_progress"
        looked_at = case.superseded_at or case.at + TOOK
        external_id = bytes_digest(f"{suite} {head} {home.project.pk}".encode())[7:39]
        self.rows.checks.add(
            *(home.project.pk, suite, head, f"evalhub / {suite}", external_id, status, word),
            *(*output, summary.plan_url(Plan(digest=plan.digest)), moment(case.at), ended_at),
            *(3, 3, _workflow_run(self._seed, case.index), 0, "", moment(case.at + TOOK)),
            *(moment(looked_at), moment(looked_at)),
        )


def _workflow_run(seed: int, index: int) -> int:
    return 10_000_000 * (seed + 1) + index


@transaction.atomic
def _home(number: int, *, at: datetime) -> _Home:
    project, _ = Project.objects.get_or_create(
        name=f"generated/agent-{number}",
        defaults={
            "repository_id": 10_000_000_000 + number,
            "default_branch": "main",
            "checks_for_unverified": True,
            "salt": bytes_digest(f"salt {number}".encode())[7:],
            "created_at": at,
        },
    )
    pool, _ = Pool.objects.get_or_create(
        project=project, name=POOL, defaults={"limit_microusd": _POOL_MICROUSD, "created_at": at}
    )
    return _Home(project, pool)


def _new_policy(home: _Home, half: int, at: datetime) -> PolicyVersion:
    digest, text = _named(policy_document(half))
    home.policies[half], _ = PolicyVersion.objects.get_or_create(
        project=home.project,
        digest=digest,
        defaults={"document": text, "registered_at": at, "current_since": at},
    )
    return home.policies[half]


def _new_suite(home: _Home, case: Case, quarter: int) -> SuiteVersion:
    digest, text = _named(suite_document(case.shape, quarter))
    home.suites[case.shape.suite, quarter], _ = SuiteVersion.objects.get_or_create(
        project=home.project,
        name=case.shape.suite,
        digest=digest,
        defaults={"document": text, "registered_at": case.at, "current_since": case.at},
    )
    return home.suites[case.shape.suite, quarter]


def _named(document: dict[str, Any]) -> tuple[str, str]:
    text = canonical_bytes(document)
    return bytes_digest(text), text.decode()
