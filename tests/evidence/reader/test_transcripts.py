"""Transcripts are read page by page, and any turn is found by its number."""

import pytest

from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.protocol.plan import RunKey
from evalhub.web.errors import NotFoundError
from evidence.reader.queries import transcripts
from evidence.store.models import Run
from tests.evidence.factories import ndjson
from tests.evidence.reader.factories import make_run, run_items, send, turn
from tests.lanes.factories import make_attempt

pytestmark = pytest.mark.django_db

KEY = RunKey("order-lookup", "candidate", 1)


def make_long_run(*, parts: list[range]) -> Run:
    attempt = make_attempt()
    items = run_items(KEY, turns=[], transcript_parts=len(parts))
    for part, numbers in enumerate(parts, start=1):
        path = format_path(ItemPath(ItemKind.TRANSCRIPT, KEY, part=part))
        items[path] = ndjson(*[turn(number, f"text {number}") for number in numbers])
    send(attempt, items)
    return Run.objects.get(attempt=attempt)


def numbers(page: transcripts.TranscriptPage) -> list[int]:
    return [turn.turn for turn in page.turns]


def test_page_begins_at_a_turn_in_the_middle_of_a_later_part() -> None:
    run = make_long_run(parts=[range(1, 101), range(101, 201), range(201, 251)])

    page = transcripts.transcript_page(run, start=150, limit=60)

    assert numbers(page) == list(range(150, 210))
    assert (page.total, page.previous, page.next) == (250, 90, 210)


def test_first_page_has_no_previous_and_last_no_next() -> None:
    run = make_long_run(parts=[range(1, 6)])

    page = transcripts.transcript_page(run, start=1, limit=10)

    assert numbers(page) == [1, 2, 3, 4, 5]
    assert (page.previous, page.next) == (None, None)


def test_turn_beyond_the_end_shows_the_last_page() -> None:
    run = make_long_run(parts=[range(1, 31)])

    page = transcripts.transcript_page(run, start=9_999, limit=10)

    assert numbers(page) == list(range(21, 31))
    assert page.next is None


def test_turn_is_found_where_numbers_have_gaps() -> None:
    run = make_long_run(parts=[range(10, 100, 10), range(100, 200, 10)])

    page = transcripts.transcript_page(run, start=120, limit=3)

    assert numbers(page) == [120, 130, 140]
    assert (page.previous, page.next) == (90, 150)


def test_page_ends_early_where_turns_are_huge() -> None:
    # Not one letter repeated: that would be refused as a bomb.
    huge = "".join(f"{number:x} " for number in range(80_000))
    attempt = make_attempt()
    items = run_items(KEY, turns=[], transcript_parts=2)
    for part, numbers_of_part in enumerate([(1, 2), (3, 4)], start=1):
        path = format_path(ItemPath(ItemKind.TRANSCRIPT, KEY, part=part))
        items[path] = ndjson(*[turn(number, huge) for number in numbers_of_part])
    send(attempt, items)

    page = transcripts.transcript_page(Run.objects.get(attempt=attempt), start=1, limit=200)

    assert numbers(page) == [1, 2, 3]
    assert page.next == 4


def test_run_without_a_transcript_has_an_empty_page() -> None:
    attempt = make_attempt()
    items = run_items(KEY)
    del items[format_path(ItemPath(ItemKind.TRANSCRIPT, KEY, part=1))]
    send(attempt, items)

    page = transcripts.transcript_page(Run.objects.get(attempt=attempt), start=7, limit=200)

    assert page == transcripts.TranscriptPage(turns=[], total=0, previous=None, next=None)


def test_turn_with_number_names_a_turn_that_is_absent() -> None:
    run = make_run(turns=[turn(1, "one"), turn(3, "three")])

    assert transcripts.turn_with_number(run, 3).text == "three"
    with pytest.raises(NotFoundError, match="has no turn 2"):
        transcripts.turn_with_number(run, 2)
