"""What is told of objects, and of which: shared by looking at them and by making rows from them."""

import hashlib
import json
from enum import StrEnum
from typing import BinaryIO, NamedTuple

from evidence.store.operations import objects
from lanes.plans.models import Plan
from lanes.projects.models import Project

_CHUNK = 2**18


class Grade(StrEnum):
    """What is wrong with an object."""

    DAMAGED = "damaged"
    MISSING = "missing"
    UNINDEXED = "unindexed"
    """It is evidence, but the rows do not know it: `manage.py reindex` makes them."""
    RETURNED = "returned"
    """Its bytes were removed on purpose, and are there again."""
    EXTRA = "extra"
    """Nobody vouches for it, which harms nothing."""


class Finding(NamedTuple):
    grade: Grade
    key: str
    sentence: str
    is_mended: bool = False

    def __str__(self) -> str:
        # Whoever may write to the bucket chooses names; a terminal is to show them, not to obey them.
        key = self.key if self.key.isprintable() else ascii(self.key)
        return f"{self.grade.value}: {key}: {self.sentence}"

    def as_json(self) -> str:
        """Return the finding on one line for programs."""
        return json.dumps({**self._asdict(), "grade": self.grade.value})

    @property
    def is_fault(self) -> bool:
        """Whether something is wrong that still is."""
        return self.grade is not Grade.EXTRA and not self.is_mended


class Scope(NamedTuple):
    """Which objects are looked at: those of one plan, of one project, or all."""

    project: Project | None = None
    plan: Plan | None = None

    @property
    def prefix(self) -> str:
        if self.plan is not None:
            return f"{objects.plan_folder(self.plan)}/"
        return f"{self.project.name}/" if self.project is not None else ""


def digest_of(file: BinaryIO) -> tuple[str, int]:
    """Return the digest of what a file holds from here on, and how many bytes that is."""
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return f"sha256:{digest.hexdigest()}", size
