"""Evidence is laid out for reading without changing what it says."""

from uuid import UUID

from evalhub.protocol.records import Failure, JudgeLine, Turn
from evidence.reader import presentation
from tests.evidence.factories import judge_line
from tests.evidence.reader.factories import turn

BIG = 10**30


def make_turn(number: int = 1, text: str | None = None, **fields: object) -> Turn:
    return Turn.model_validate(turn(number, text, **fields))


def passage_of(text: str) -> presentation.Passage:
    (view,) = presentation.turn_views([make_turn(text=text)], cited={}, bodies={})
    return view.passages[0]


def test_indented_json_keeps_repeated_keys_and_numbers_as_written() -> None:
    text = f'{{"a":{BIG},"a":1.50,"b":NaN,"c":"{{not, a: [brace]}}"}}'

    indented = presentation.indented_json(text)

    assert indented.splitlines() == [
        "{",
        f'  "a": {BIG},',
        '  "a": 1.50,',
        '  "b": NaN,',
        '  "c": "{not, a: [brace]}"',
        "}",
    ]


def test_indented_json_keeps_escaped_quotes_and_empty_containers() -> None:
    assert presentation.indented_json(r'{"a":"\"}\\","b":[],"c":{}}') == (
        '{\n  "a": "\\"}\\\\",\n  "b": [],\n  "c": {}\n}'
    )


def test_text_that_is_not_json_stays_as_it_is() -> None:
    for text in ("{broken", "plain", "[1,", "{'a': 1}", "[" * 100_000):
        assert presentation.indented_json(text) == text


def test_long_text_is_folded_and_longer_text_only_begun() -> None:
    short, long, huge = (passage_of("x" * size) for size in (100, 5_000, 50_000))

    assert (short.is_folded, short.is_cut) == (False, False)
    assert (long.is_folded, long.is_cut, len(long.text)) == (True, False, 5_000)
    assert (huge.is_folded, huge.is_cut, huge.characters) == (True, True, 50_000)
    assert len(huge.text) == presentation.FOLDED_FROM


def test_text_of_many_lines_is_folded() -> None:
    assert passage_of("\n" * 60).is_folded


def test_whole_turn_folds_and_cuts_nothing() -> None:
    view = presentation.whole_turn_view(make_turn(text="x" * 50_000), cited={}, bodies={})

    assert [len(p.text) for p in view.passages] == [50_000]
    assert not view.passages[0].is_folded


def test_arguments_come_before_text() -> None:
    called = make_turn(text="why", kind="tool_call", tool={"name": "t", "arguments": "{}"})

    (view,) = presentation.turn_views([called], cited={1: ["resolved"]}, bodies={})

    assert [p.label for p in view.passages] == ["arguments", "text"]
    assert view.cited_by == ["resolved"]


def test_cites_stay_on_the_page_where_they_can() -> None:
    page = [make_turn(number) for number in range(201, 401)]

    cites = presentation.cites([205, 3, 900], page=page)

    assert [cite.href for cite in cites] == ["#turn-205", "?from=1#turn-3", "?from=895#turn-900"]


def test_cited_turns_name_each_source_once() -> None:
    lines = [JudgeLine.model_validate(judge_line(cites=[2, 7])) for _ in range(2)]
    failure = Failure(category="c", root_cause="r", turns=[7], by="rules")

    assert presentation.cited_turns(lines, failure) == {
        7: ["failure analysis", "resolved"],
        2: ["resolved"],
    }


def test_judge_calls_are_grouped_by_rubric() -> None:
    lines = [
        JudgeLine.model_validate(judge_line(rubric=rubric, call_id=str(UUID(int=number))))
        for number, rubric in enumerate(["a", "b", "a"])
    ]

    views = presentation.rubric_views(lines, values={"a": 0.5}, page=[])

    assert [(view.rubric, len(view.calls), view.value) for view in views] == [
        ("a", 2, 0.5),
        ("b", 1, None),
    ]


def test_text_page_gives_lines_from_the_middle() -> None:
    data = "".join(f"line {number}\n" for number in range(1, 26)).encode()

    page = presentation.text_page(data, start=11, limit=10)

    assert (page.lines[0], page.lines[-1]) == ("line 11", "line 20")
    assert (page.total, page.previous, page.next) == (25, 1, 21)


def test_text_page_replaces_bytes_that_are_no_text_and_refuses_binary() -> None:
    assert presentation.text_page(b"\xff\n", start=1, limit=5).lines == ["\ufffd"]
    assert presentation.text_page(b"PK\x00\x01", start=1, limit=5).is_binary
    assert presentation.text_page(b"", start=1, limit=5).lines == []


def test_download_name_is_harmless() -> None:
    for path in ("../../etc/passwd", 'a"b\r\nSet-Cookie: x', "runs/%2E%2E/con/1/files/x", ".."):
        name = presentation.download_name(path)
        assert name == name.strip()
        assert not set(name) & set('/\\"\r\n%:')
        assert not name.startswith(".")
