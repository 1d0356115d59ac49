"""When a lane's command is wrong as a whole."""

from typing import Any

import pytest

from evalhub.runner import clock
from evalhub.runner.fruitless import Fruitless
from evalhub.runner.spool import RunEnded


def make_ended(**fields: Any) -> RunEnded:
    at = clock.now()
    defaults = {"how": "exited", "exit_code": 2, "output_tail": "usage: agent\nno such flag"}
    return RunEnded(**{**defaults, **fields}, started_at=at, finished_at=at, duration_ms=1)


def noted(*runs: RunEnded, wrote_result: bool = False) -> Fruitless:
    fruitless = Fruitless()
    for ended in runs:
        fruitless.note(ended, wrote_result=wrote_result)
    return fruitless


def test_runs_that_all_fail_alike_are_told_with_the_end_of_the_output() -> None:
    fruitless = noted(*[make_ended()] * 12)

    assert fruitless.sentence() == (
        "The command ended with 2 in all 12 runs and never wrote result.json; "
        "the end of its output:\n  usage: agent\n  no such flag"
    )


def test_the_warning_comes_once_after_the_third_run() -> None:
    warnings = [noted(*[make_ended()] * runs).early_sentence() for runs in range(1, 6)]

    assert [warning is not None for warning in warnings] == [False, False, True, False, False]


def test_silence_and_a_signal_are_told_as_what_they_are() -> None:
    fruitless = noted(make_ended(exit_code=-11, output_tail=""))

    assert fruitless.sentence() == (
        "The command was ended by signal 11 in its only run and never wrote result.json; "
        "it wrote no output."
    )


@pytest.mark.parametrize(
    "other",
    [
        make_ended(exit_code=3),
        make_ended(exit_code=0),
        make_ended(how="timeout", exit_code=None),
        make_ended(how="budget_exceeded", exit_code=None),
    ],
)
def test_one_run_that_ends_otherwise_clears_the_command(other: RunEnded) -> None:
    assert noted(make_ended(), other, make_ended()).sentence() is None
    assert noted(other, make_ended(), make_ended()).early_sentence() is None


def test_a_result_clears_the_command_and_no_run_says_nothing() -> None:
    assert noted(make_ended(), wrote_result=True).sentence() is None
    assert noted().sentence() is None
