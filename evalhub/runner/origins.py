"""`origins.ndjson`: of each part of a growing file, what of that file it was made of.

An entry is written before the segment that holds its part, and counts only once that segment has its
name; of several for one part the last one counts. So segments stay the state, and a crash between the
two changes nothing. It never leaves the machine.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from evalhub.runner.documents import JsonObject

ORIGINS = "origins.ndjson"


class Origins:
    """The entries of one spool, by the path of the part."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ORIGINS
        self._entries = self._read()

    def of(self, path: str) -> JsonObject | None:
        return self._entries.get(path)

    def note(self, origins: Mapping[str, JsonObject]) -> None:
        """Write entries durably; raises OSError where that is not possible."""
        if not origins:
            return
        lines = (json.dumps({**origin, "path": path}) for path, origin in origins.items())
        # A line that a crash cut short must not swallow the next one.
        data = "\n" + "\n".join(lines) + "\n"
        with self._path.open("ab") as file:
            file.write(data.encode())
            file.flush()
            os.fsync(file.fileno())
        self._entries.update(origins)

    def _read(self) -> dict[str, JsonObject]:
        entries: dict[str, JsonObject] = {}
        try:
            with self._path.open("rb") as file:
                for line in file:
                    entry = _entry(line)
                    if entry is not None:
                        entries[str(entry.pop("path"))] = entry
        except FileNotFoundError:
            pass
        return entries


def _entry(line: bytes) -> JsonObject | None:
    try:
        entry = json.loads(line)
    except ValueError:
        # Empty, or cut short by the end of the machine: its part was never made.
        return None
    return entry if isinstance(entry, dict) and "path" in entry else None


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder outlive the machine."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
