"""Where bytes lie: a directory, or any S3. Nothing else in the project speaks to either.

An object is written once, under a key that names its content, and `put` returns when it is durable.
"""

from evidence.store.storage.chosen import folder_of_objects, is_configured, object_store, probe
from evidence.store.storage.contract import (
    FULL,
    ObjectMissingError,
    ObjectStore,
    StorageFullError,
    StorageUnavailableError,
)
from evidence.store.storage.directory import DirectoryStore
from evidence.store.storage.s3 import MOST_READERS, S3Place, S3Store

__all__ = [
    "FULL",
    "MOST_READERS",
    "DirectoryStore",
    "ObjectMissingError",
    "ObjectStore",
    "S3Place",
    "S3Store",
    "StorageFullError",
    "StorageUnavailableError",
    "folder_of_objects",
    "is_configured",
    "object_store",
    "probe",
]
