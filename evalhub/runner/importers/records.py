"""What an importer reads and gives."""

from pathlib import Path
from typing import NamedTuple

from evalhub.runner.documents import JsonObject


class SourceFile(NamedTuple):
    """A file as it came."""

    path: Path
    data: bytes


class ImportedRun(NamedTuple):
    """One run: its `result.json`, its transcript's turns, its attachments by name."""

    scenario: str
    epoch: int
    result: JsonObject
    turns: list[JsonObject]
    files: dict[str, bytes]


class ImportedResults(NamedTuple):
    """All runs of some files, and what the files say about the suite and the agent.

    `policy` is one to begin with: it gates what the format measures.
    """

    suite: JsonObject
    policy: JsonObject
    subject: str
    model: str
    tier: str
    runs: list[ImportedRun]
