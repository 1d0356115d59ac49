"""Which object store the settings name."""

import io
import os
import secrets
from pathlib import Path

from botocore.exceptions import BotoCoreError
from django.conf import settings

from evalhub.web.disks import standing_part
from evalhub.web.errors import DomainError
from evidence.store.storage.contract import ObjectStore, StorageUnavailableError
from evidence.store.storage.directory import DirectoryStore
from evidence.store.storage.s3 import S3Place, s3_store

_PROBE_FOLDER = ".probe"


def object_store() -> ObjectStore:
    """Return the store that the settings name: a bucket if there is one, else the directory."""
    if settings.S3_BUCKET:
        place = S3Place(
            settings.S3_BUCKET,
            settings.S3_ENDPOINT_URL,
            settings.S3_REGION,
            settings.S3_ACCESS_KEY_ID,
            settings.S3_SECRET_ACCESS_KEY,
        )
        return s3_store(place)
    return DirectoryStore(Path(settings.OBJECTS_DIR))


def folder_of_objects() -> Path | None:
    """Return where the objects lie on this machine; None where a bucket holds them."""
    return None if settings.S3_BUCKET else Path(settings.OBJECTS_DIR)


def is_configured() -> bool:
    """Say whether the settings name a place that could be written to. Asks no server."""
    folder = folder_of_objects()
    if folder is not None:
        standing = standing_part(folder)
        return standing.is_dir() and os.access(standing, os.W_OK | os.X_OK)
    try:
        object_store()
    except (ValueError, BotoCoreError):
        return False
    return True


def probe() -> None:
    """Write a small object, read it back and delete it: for whoever wants to know that all that works.

    Raises:
        StorageUnavailableError: if one of the three fails, in a sentence for whoever runs the server:
            it names the place and what was said there.
    """
    store = object_store()
    key, content = f"{_PROBE_FOLDER}/{secrets.token_hex(8)}", secrets.token_bytes(64)
    try:
        store.put(key, io.BytesIO(content))
        with store.open(key) as file:
            found = file.read()
        store.delete(key)
    except DomainError as error:
        raise StorageUnavailableError(
            f"The object store in {store.place} failed a probe: {error.detail}"
            f" ({error.__cause__ or 'nothing more was said'})"
        ) from error
    if found != content:
        raise StorageUnavailableError(
            f"The object store in {store.place} gave other bytes back than were put there."
        )
