"""Paths: one for each piece of evidence, and no other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.protocol.paths import (
    ItemKind,
    ItemPath,
    PathError,
    decoded_component,
    encoded_component,
    format_path,
    parse_path,
    run_folder,
)
from evalhub.protocol.plan import RunKey

KEY = RunKey("refund-twice", "candidate+faults", 2)
FOLDER = "runs/refund-twice/candidate%2Bfaults/2"

PATHS = {
    f"{FOLDER}/result.json": ItemPath(ItemKind.RESULT, KEY),
    f"{FOLDER}/judge.1.ndjson": ItemPath(ItemKind.JUDGE, KEY, part=1),
    f"{FOLDER}/failure.json": ItemPath(ItemKind.FAILURE, KEY),
    f"{FOLDER}/transcript.12.ndjson": ItemPath(ItemKind.TRANSCRIPT, KEY, part=12),
    f"{FOLDER}/files/notes%2Etxt": ItemPath(ItemKind.FILE, KEY, name="notes.txt"),
    "lane/preflight.json": ItemPath(ItemKind.PREFLIGHT),
    "lane/environment.json": ItemPath(ItemKind.ENVIRONMENT),
    "lane/redactions.json": ItemPath(ItemKind.REDACTIONS),
    "lane/faults.1.ndjson": ItemPath(ItemKind.FAULTS, part=1),
    "lane/probes.3.ndjson": ItemPath(ItemKind.PROBES, part=3),
    "lane/logs/agent.1.log": ItemPath(ItemKind.LOG, part=1, name="agent"),
}


@pytest.mark.parametrize(("path", "item"), PATHS.items())
def test_each_path_of_the_wire_is_read_and_written(path: str, item: ItemPath) -> None:
    assert parse_path(path) == item
    assert format_path(item) == str(item) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "segment.json",
        "runs",
        "lane",
        "runs/a/b/1",
        "runs/a/b/0/result.json",
        "runs/a/b/01/result.json",
        "runs/a/b/+1/result.json",
        "runs/a/b/1000000/result.json",
        "runs/a//1/result.json",
        "runs/../b/1/result.json",
        "runs/a.b/c/1/result.json",
        "runs/%2e%2E/b/1/result.json",
        "runs/%41/b/1/result.json",
        "runs/%FF/b/1/result.json",
        "runs/a/b/1/result.json/",
        "runs/a/b/1/judge.ndjson",
        "runs/a/b/1/judge.0.ndjson",
        "runs/a/b/1/files/",
        "runs/a/b/1/files/a/b",
        "runs/a/b/1/files/..",
        "runs/\u00e9/b/1/result.json",
        "lane/preflight.json ",
        "lane/faults.ndjson",
        "lane/logs/agent.log",
        "lane/logs/a.b.1.log",
        "lane/../runs/a/b/1/result.json",
        "/runs/a/b/1/result.json",
        "runs/a/b/1/files/" + "a" * 1000,
    ],
)
def test_any_other_path_is_refused(path: str) -> None:
    with pytest.raises(PathError):
        parse_path(path)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
KEYS = st.builds(RunKey, TEXT, TEXT, st.integers(1, 999_999))
NONE = st.none()
PARTS = st.integers(1, 999_999)
ITEMS = st.one_of(
    st.builds(ItemPath, st.sampled_from([ItemKind.RESULT, ItemKind.FAILURE]), KEYS, NONE, NONE),
    st.builds(ItemPath, st.sampled_from([ItemKind.JUDGE, ItemKind.TRANSCRIPT]), KEYS, PARTS, NONE),
    st.builds(ItemPath, st.just(ItemKind.FILE), KEYS, NONE, TEXT),
    st.builds(ItemPath, st.just(ItemKind.LOG), NONE, PARTS, TEXT),
    st.builds(ItemPath, st.sampled_from([ItemKind.FAULTS, ItemKind.PROBES]), NONE, PARTS, NONE),
)


@given(ITEMS)
def test_path_comes_back_as_it_went(item: ItemPath) -> None:
    path = format_path(item)

    if len(path) <= 1000:
        assert parse_path(path) == item
    assert not {"..", ".", ""} & set(path.split("/"))
    assert path.isascii()


@given(TEXT)
def test_component_comes_back_as_it_went(text: str) -> None:
    assert decoded_component(encoded_component(text)) == text


@given(st.text(max_size=60))
def test_text_is_a_path_in_one_form_or_none(text: str) -> None:
    try:
        item = parse_path(text)
    except PathError:
        return
    assert format_path(item) == text


def test_dots_and_slashes_cannot_lead_elsewhere() -> None:
    assert run_folder(RunKey("..", "a/b", 1)) == "runs/%2E%2E/a%2Fb/1"
