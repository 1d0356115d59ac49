"""Both object stores, for tests of what must be alike on a directory and on a bucket."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from evidence.store.storage import ObjectStore, S3Place, S3Store, object_store
from tests.programs.s3 import S3Server


@pytest.fixture(scope="session")
def s3_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Place]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server.place


@pytest.fixture(
    params=[pytest.param("directory"), pytest.param("s3", marks=[pytest.mark.slow])],
)
def either_store(request: pytest.FixtureRequest, settings: Settings) -> ObjectStore:
    """Let `object_store()` be each kind of store in turn, empty."""
    if request.param == "s3":
        place: S3Place = request.getfixturevalue("s3_place")
        settings.S3_BUCKET = place.bucket
        settings.S3_ENDPOINT_URL = place.endpoint_url
        settings.S3_REGION = place.region
        settings.S3_ACCESS_KEY_ID = place.access_key_id
        settings.S3_SECRET_ACCESS_KEY = place.secret_access_key
        emptied = S3Store(place)
        for key in list(emptied.keys()):
            emptied.delete(key)
    return object_store()
