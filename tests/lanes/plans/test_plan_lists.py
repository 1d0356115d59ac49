"""Lists of plans: newest first over several projects, by page, by what is wanted."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from lanes.plans import queries
from lanes.plans.models import Plan, PolicyVersion
from lanes.plans.queries import NOT_CONCLUDED, PlanFilter
from lanes.projects.models import Project
from tests.lanes import factories
from tests.lanes.factories import NOW

NAMES = ("agent-a", "agent-b", "agent-c")


def place(
    project: Project, number: int, *, minutes: int, suite: str, conclusion: str | None
) -> Plan:
    """Put a row into the table that registers nothing else."""
    policy, _ = PolicyVersion.objects.get_or_create(
        project=project, digest="p", defaults={"registered_at": NOW, "current_since": NOW}
    )
    at = NOW + timedelta(minutes=minutes)
    return Plan.objects.create(
        project=project,
        policy=policy,
        digest=f"plan {project.pk} {number}",
        document="",
        kind="gate",
        suite_name=suite,
        event="push",
        run_count=1,
        registered_at=at,
        deadline_at=at,
        conclusion=conclusion,
    )


class TestPages(TestCase):
    @given(
        rows=st.lists(
            st.tuples(
                st.sampled_from(range(3)),
                st.integers(0, 4),
                st.sampled_from(["support", "routing"]),
                st.sampled_from([None, "success", "failure"]),
            ),
            max_size=25,
        ),
        limit=st.integers(1, 6),
        wanted=st.builds(
            PlanFilter,
            suite_name=st.sampled_from([None, "support"]),
            conclusion=st.sampled_from([None, NOT_CONCLUDED, "failure"]),
            workflow_run_id=st.none(),
        ),
        seen=st.sets(st.sampled_from(range(3)), min_size=1),
    )
    def test_pages_together_are_everything_in_order(
        self,
        rows: list[tuple[int, int, str, str | None]],
        limit: int,
        wanted: PlanFilter,
        seen: set[int],
    ) -> None:
        projects = [factories.make_project() for _ in NAMES]
        plans = [
            place(projects[p], n, minutes=minutes, suite=suite, conclusion=conclusion)
            for n, (p, minutes, suite, conclusion) in enumerate(rows)
        ]
        visible = [projects[p] for p in sorted(seen)]

        found: list[Plan] = []
        while page := queries.plans_of(
            visible, before=found[-1] if found else None, limit=limit, wanted=wanted
        ):
            assert len(page) <= limit
            found += page

        word = {None: None, NOT_CONCLUDED: (None,)}.get(wanted.conclusion, (wanted.conclusion,))
        expected = [
            plan
            for plan in plans
            if plan.project in visible
            and wanted.suite_name in (None, plan.suite_name)
            and (word is None or plan.conclusion in word)
        ]
        expected.sort(key=lambda plan: (plan.registered_at, plan.pk), reverse=True)
        assert found == expected


@pytest.mark.django_db
def test_nobodys_projects_have_no_plans() -> None:
    factories.make_plan()

    assert queries.plans_of([], limit=5) == []
