"""A plan as one archive that needs no evalhub to be read: written piece by piece, checked by its manifest."""

import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import Field

from evalhub.protocol.retained import PlanStateWord
from evalhub.protocol.scalars import Count, DigestText, ProjectName, Record, Time

MANIFEST, README, SUMS, PLAN = "manifest.json", "README.txt", "SHA256SUMS", "plan.json"
POLICY, SUITE, CONCLUSION = "policy.json", "suite.json", "conclusion.json"
FOREIGN, RECORDS = "foreign.json", "records"
RUNS_HEADER = "Evalhub-Runs"
"""Says how many lines of runs an answer has."""
_UNIX = 3

EXPLANATION = """\
One plan of evalhub: what should have run, what did run as it was sent, and what was concluded.
Nothing here needs evalhub: the files are ZIP archives, JSON, and JSON lines, in UTF-8.

manifest.json     every other file with its size and SHA-256; where and when this was exported, and by
                  whom; how far the plan was by then (`state`: a plan that is not concluded has more to
                  come); `faults` names what was damaged or lost in the store that this comes from.
SHA256SUMS        the same digests, of all files but this one and manifest.json. To check them, unpack
                  into an empty folder: `unzip FILE && sha256sum --check --quiet SHA256SUMS`.
plan.json         lanes, arms, scenarios and run keys. Its SHA-256 is the plan's digest.
policy.json       the rules of the gate; its SHA-256 is the plan's `policy_digest`.
suite.json        the suite, if it was registered; its SHA-256 is the plan's `suite.digest`.
conclusion.json   what the plan means: verdicts, findings, sentences. Absent while it was not concluded.
records/*.json    one verdict each with everything that it rests on; the name is the content's SHA-256.
foreign.json      where the plan came from, if it had been imported into the store that this comes from.

<lane>/<attempt>/attempt.json    one try of a lane; a newer one supersedes it
<lane>/<attempt>/seal.json       what had been received when the lane said that it was done
<lane>/<attempt>/<seq>-<sha256>.zip           a segment, exactly as the lane sent it
<lane>/<attempt>/<seq>-<sha256>.receipt.json  what of it counts: all members but those in `refused`,
                                              and `segment.json`
<lane>/<attempt>/<seq>-<sha256>.refusal.json  why a whole segment does not count
<lane>/<attempt>/<seq>-<sha256>.purged.json   that its bytes were deleted, and which evidence they held

In a segment: runs/<scenario>/<arm>/<epoch>/result.json, judge.<part>.ndjson (scores with rationale),
transcript.<part>.ndjson (turns), failure.json, files/<name>; and lane/preflight.json,
environment.json, logs/<name>.<part>.log. Characters other than letters, digits, _ and - in a part
of such a path are percent-encoded. Of two members with one path in one attempt, the first counts.
To read the results of all runs with nothing but Python's own library:

    import json, pathlib, urllib.parse, zipfile
    for receipt in sorted(pathlib.Path(".").glob("*/*/*.receipt.json")):
        refused = {item["path"] for item in json.loads(receipt.read_text())["refused"]}
        with zipfile.ZipFile(str(receipt).replace(".receipt.json", ".zip")) as segment:
            for path in segment.namelist():
                if path.endswith("/result.json") and path not in refused:
                    _, scenario, arm, epoch, _ = map(urllib.parse.unquote, path.split("/"))
                    print(scenario, arm, epoch, json.loads(segment.read(path))["outcome"])

With an evalhub, `evalhub import FILE --project OWNER/NAME` shows the plan there, checked again.

Transcripts are what an agent and its tools said. Do not run, open or follow anything in them.
"""


class ExportedFile(Record):
    path: str = Field(max_length=1000)
    sha256: DigestText
    size_bytes: Count


class ExportManifest(Record):
    """`manifest.json`, the last file of an archive."""

    schema_: Literal["evalhub.export/1"] = Field(alias="schema", default="evalhub.export/1")
    plan: DigestText
    project: ProjectName
    instance: str | None = Field(default=None, max_length=500)
    """The address of the server that this was exported from."""
    exported_at: Time
    exported_by: str | None = Field(default=None, max_length=200)
    state: PlanStateWord | None = None
    """How far the plan was; a plan that is not concluded has more to come."""
    registered_at: Time | None = None
    engine_version: str = Field(max_length=200)
    files: list[ExportedFile]
    faults: list[str]


class ArchiveStream:
    """Writes a ZIP file of stored members, whose bytes are taken as they come into being.

    Each method is to be exhausted before the next one is called. Holds no more than one piece.
    """

    def __init__(self) -> None:
        self._out = _Outbox()
        self._zip = zipfile.ZipFile(self._out, "w", zipfile.ZIP_STORED)
        self.files: list[ExportedFile] = []

    def add(self, path: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the archive's bytes for one more file, and note its digest in `files`."""
        info = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
        info.create_system, info.external_attr = _UNIX, 0o100600 << 16
        digest, size = hashlib.sha256(), 0
        with self._zip.open(info, "w") as member:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                member.write(piece)
                yield self._out.taken()
        yield self._out.taken()
        sha256 = f"sha256:{digest.hexdigest()}"
        self.files.append(ExportedFile(path=path, sha256=sha256, size_bytes=size))

    def sums(self) -> bytes:
        """Return the digests so far, as `sha256sum --check` takes them."""
        lines = (f"{file.sha256.removeprefix('sha256:')}  {file.path}\n" for file in self.files)
        return "".join(lines).encode()

    def end(self) -> Iterator[bytes]:
        """Yield the archive's directory."""
        self._zip.close()
        yield self._out.taken()


class _Outbox(io.RawIOBase):
    """What was written and not yet taken. It cannot be sought in, and `zipfile` asks it not to."""

    def __init__(self) -> None:
        self._held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._held += piece
        return len(piece)

    def taken(self) -> bytes:
        taken = bytes(self._held)
        self._held.clear()
        return taken
