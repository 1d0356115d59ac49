"""What a plan means, from evidence that came through the real intake."""

import pytest

from tests.gates.factories import (
    codes,
    make_baseline,
    make_conclusion,
    make_gated_project,
    steady,
    verdict,
)

pytestmark = pytest.mark.django_db


def test_conclude_unchanged_agent_succeeds() -> None:
    project = make_gated_project()
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate"))

    print(conclusion.content)
    assert conclusion.conclusion == "success"
