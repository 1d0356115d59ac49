"""Secrets in texts that are large, or split over lines: where they stand, and what finding them costs."""

import json
import tracemalloc
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from evalhub.protocol.paths import ItemKind
from evalhub.protocol.redaction import Held, redacted
from evalhub.protocol.secrets import Secret
from tests.evalhub.protocol.secret_samples import AWS_KEY

TOKEN = "9fK2mQ7xLw4Zt8Rb1Vn6"
LETTERS = "QZXYLPMNFHIRTUVWGSK234567"
HELD = Held([Secret("env", TOKEN, is_held=True)])


@given(st.lists(st.sampled_from(["word", " ", "\n", "\t \r\n"]), max_size=40))
def test_redacted_finds_split_values_wherever_they_stand(around: list[str]) -> None:
    text = "".join(around) * 60
    split = f"{TOKEN[:7]}\n  {TOKEN[7:]}"

    done = redacted(f"{text}{split}{text}{split}".encode(), ItemKind.LOG, held=HELD).data

    assert done.decode() == f"{text}[redacted:env:1]{text}[redacted:env:1]"


def test_redacted_finds_a_value_with_spaces_in_a_string_without_any() -> None:
    phrase = Held([Secret("env", "correct horse battery staple", is_held=True)])

    done = redacted(b'{"extra": {"it": "correcthorsebatterystaple"}}', ItemKind.RESULT, held=phrase)

    assert done.data == b'{"extra": {"it": "[redacted:env:1]"}}'


def test_redacted_replaces_each_of_many_keys_in_many_short_strings() -> None:
    keys = ["AKIA" + "".join(Random(number).choices(LETTERS, k=16)) for number in range(150)]  # noqa: S311
    line = {"turn": 1, "role": "tool", "kind": "note", "extra": {"it": ["x", *keys] * 10}}

    done = redacted(json.dumps(line).encode(), ItemKind.TRANSCRIPT)

    assert done.counts.total() == 1_500
    assert b"AKIA" not in done.data
    assert json.loads(done.data)["extra"]["it"].count("x") == 10


def test_redacted_takes_a_small_multiple_of_the_memory_of_a_large_text() -> None:
    data = b"2026-11-29 a line of a log, and nothing in it\n" * 50_000 + AWS_KEY.encode()

    tracemalloc.start()
    redacted(data, ItemKind.LOG)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 8 * len(data)
