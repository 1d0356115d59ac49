"""Secrets in texts that are large, or split over lines: where they stand, and what finding them costs."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from evalhub.protocol.paths import ItemKind
from evalhub.protocol.redaction import Held, redacted
from evalhub.protocol.secrets import Secret
from tests.evalhub.protocol.secret_samples import AWS_KEY

TOKEN = "9fK2mQ7xLw4Zt8Rb1Vn6"
HELD = Held([Secret("env", TOKEN, is_held=True)])


@given(st.lists(st.sampled_from(["word", " ", "\n", "\t \r\n"]), max_size=40))
def test_redacted_finds_split_values_wherever_they_stand(around: list[str]) -> None:
    text = "".join(around) * 60
    split = f"{TOKEN[:7]}\n  {TOKEN[7:]}"

    done = redacted(f"{text}{split}{text}{split}".encode(), ItemKind.LOG, held=HELD).data

    assert done.decode() == f"{text}[redacted:env:1]{text}[redacted:env:1]"


def test_redacted_takes_a_small_multiple_of_the_memory_of_a_large_text() -> None:
    data = b"2026-11-29 a line of a log, and nothing in it\n" * 50_000 + AWS_KEY.encode()

    tracemalloc.start()
    redacted(data, ItemKind.LOG)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 8 * len(data)
