"""What is generated follows from a few numbers, and is refused where they make no sense."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from evalhub.growth.schedule import schedule
from lanes.projects.models import Project

UNTIL = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"runs": 0}, "--runs takes a number from 1 to 10000000"),
        ({"runs": 10_000_001}, "--runs takes"),
        ({"seed": -1}, "--seed takes"),
        ({"projects": 0}, "--projects takes"),
        ({"until": "tomorrow"}, "takes a day like 2026-11-29"),
        ({"until": "0001-01-01"}, "a day of the years 1971 to 9000"),
        ({"until": "9999-12-31"}, "a day of the years 1971 to 9000"),
    ],
)
def test_generate_refuses_what_it_cannot_do(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command("generate", **{"runs": 200, **options})

    assert not Project.objects.exists()


def test_schedule_is_a_year_of_plans_in_order() -> None:
    cases = schedule(runs=100_000, seed=3, projects=5, until=UNTIL)

    assert sum(case.runs for case in cases) == 100_000
    assert [case.at for case in cases] == sorted(case.at for case in cases)
    assert UNTIL - timedelta(days=366) < cases[0].at
    assert cases[-1].at < UNTIL
    assert Counter(case.event for case in cases).keys() == {"pull_request", "schedule", "push"}
    assert len({case.project for case in cases}) == 5
    heads = [case for case in cases if case.superseded_at is not None]
    assert all(case.superseded_at > case.at for case in heads if case.superseded_at)
    assert 0.3 < len(heads) / len(cases) < 0.8
