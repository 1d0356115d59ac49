"""Recompute a file of known answers: `python -m evalhub.stats.known_answers FILE`."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple, TypeGuard

from evalhub.stats.answers import FUNCTIONS

LARGEST_INTEGER = 10**300


class KnownAnswersError(Exception):
    """The file cannot be read as known answers; the message says why."""


class Mismatch(NamedTuple):
    """One field of one case that is not as expected."""

    case: str
    field: str
    got: object
    expected: object

    def __str__(self) -> str:
        """Return the mismatch as one line."""
        return f"{self.case} {self.field}: got {self.got!r}, expected {self.expected!r}"


class Absent:
    """What a field is that the answer does not have."""

    def __repr__(self) -> str:
        """Return the word for a line of output."""
        return "nothing"


ABSENT = Absent()


def read_cases(path: Path) -> list[object]:
    """Return the cases of a file.

    Raises:
        KnownAnswersError: if it is not a JSON object with a list `cases` that holds some.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise KnownAnswersError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise KnownAnswersError(f"{path} is not JSON: {error}.") from error
    cases = content.get("cases") if isinstance(content, dict) else None
    if not isinstance(cases, list) or not cases:
        raise KnownAnswersError(f'{path} has no list "cases" with at least one case.')
    return cases


def mismatches(case: object, *, position: int) -> Iterator[Mismatch]:
    """Recompute one case and yield what differs; a case that cannot be computed differs too."""
    name = f"case {position}"
    if not isinstance(case, dict):
        yield Mismatch(name, "case", case, "an object")
        return
    name = str(case.get("id", name))
    expected, tolerance = case.get("expected"), case.get("rtol")
    if not isinstance(expected, dict) or not expected:
        yield Mismatch(name, "expected", expected, "an object with at least one field")
        return
    if not _is_number(tolerance) or tolerance < 0:
        yield Mismatch(name, "rtol", tolerance, "a number from 0 on")
        return
    answer = _answer(case)
    if isinstance(answer, Mismatch):
        yield answer._replace(case=name)
        return
    for field, value in expected.items():
        got = answer.get(field, ABSENT)
        if not agrees(got, value, tolerance=tolerance):
            yield Mismatch(name, field, got, value)


def agrees(got: object, expected: object, *, tolerance: float) -> bool:
    """Say whether an answer is as expected: abs(got - exp) <= tolerance * max(1, abs(exp)).

    Text, truth values and null must be equal, lists agree item by item; a number that is not
    finite agrees with nothing.

    >>> agrees(0.1 + 0.2, 0.3, tolerance=1e-9), agrees(float("nan"), None, tolerance=1)
    (True, False)
    """
    if _is_number(expected):
        return (
            _is_number(got)
            and isfinite(got)
            and isfinite(expected)
            and abs(got - expected) <= tolerance * max(1.0, abs(expected))
        )
    if isinstance(expected, list):
        return (
            isinstance(got, Sequence)
            and not isinstance(got, str)
            and len(got) == len(expected)
            and all(
                agrees(one, other, tolerance=tolerance)
                for one, other in zip(got, expected, strict=True)
            )
        )
    if isinstance(expected, bool) or isinstance(got, bool):
        return got is expected
    return got == expected


def main(arguments: Sequence[str]) -> int:
    """Print each mismatch and a count; return 1 unless every case agrees."""
    if len(arguments) != 1:
        print("Give one file: python -m evalhub.stats.known_answers FILE.", file=sys.stderr)
        return 1
    try:
        cases = read_cases(Path(arguments[0]))
    except KnownAnswersError as error:
        print(error, file=sys.stderr)
        return 1
    count = 0
    for position, case in enumerate(cases, start=1):
        for mismatch in mismatches(case, position=position):
            count += 1
            print(mismatch)
    print(f"{len(cases)} cases, {count} mismatches")
    return 1 if count else 0


def _answer(case: Mapping[str, object]) -> Mapping[str, object] | Mismatch:
    name = case.get("fn")
    function = FUNCTIONS.get(name) if isinstance(name, str) else None
    if function is None:
        return Mismatch("", "fn", name, "a known function")
    given = case.get("input")
    if not isinstance(given, dict):
        return Mismatch("", "input", given, "an object")
    try:
        return function(given)
    except KeyError as error:
        return Mismatch("", "input", f"no field {error}", "the fields of its function")
    except (TypeError, ValueError, ArithmeticError) as error:
        return Mismatch("", "input", f"{type(error).__name__}: {error}", "an answer")


def _is_number(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # An integer beyond the largest float cannot be compared with one.
    return isinstance(value, float) or abs(value) <= LARGEST_INTEGER


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
