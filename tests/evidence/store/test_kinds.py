"""The table of refusals, over HTTP: each with category, code and sentence, its bytes kept, its cost paid."""

import pytest

from evidence.store.models import Segment
from lanes.plans.models import Attempt
from tests.evidence.factories import next_seq
from tests.evidence.store.kinds import Kind, assert_kept, assert_sentence
from tests.evidence.store.test_api import assert_problem, put
from tests.evidence.store.wire_kinds import WIRE_KINDS
from tests.evidence.store.zip_kinds import ZIP_KINDS
from tests.lanes.factories import make_attempt, make_plan

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.fixture
def attempt() -> Attempt:
    return make_attempt(make_plan(epochs=2))


@pytest.mark.parametrize("kind", [*ZIP_KINDS, *WIRE_KINDS], ids=str)
def test_kind_is_refused_in_words_and_kept(attempt: Attempt, kind: Kind) -> None:
    data = kind.data(attempt)
    seq = next_seq(attempt)

    response = put(attempt, data, seq=seq)

    if kind.path is None:
        detail = assert_problem(response, 422, "segment-refused")
        assert f"refused as {kind.category} ({kind.code}): " in detail
        assert not Segment.objects.filter(attempt=attempt, seq=seq).exists()
    else:
        assert response.status_code == 201
        (told,) = response.json()["refused"]
        assert (told["category"], told["code"]) == (kind.category, kind.code)
        assert_sentence(kind, told["detail"])
    assert_kept(kind, attempt, data)
