"""An archive of a plan, distrusted when it is read: every file is what its digests and names say.

Whether the evidence in it is sound is not looked at here: that is for intake to say, as for any other.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, TypeVar

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from evalhub.protocol.archive import member_chunks, open_archive
from evalhub.protocol.canonical import document_digest
from evalhub.protocol.export import (
    CONCLUSION,
    FOREIGN,
    MANIFEST,
    PLAN,
    POLICY,
    README,
    RECORDS,
    SUITE,
    SUMS,
    ExportManifest,
)
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Policy
from evalhub.protocol.retained import RetainedAttempt, RetainedRefusal, RetainedSeal
from evalhub.protocol.segments import Receipt, SegmentDigest, seal_digest
from evalhub.protocol.zip_structure import ArchiveError, ArchiveLimits, Member

# What a ZIP file holds without the extension that segments are refused for.
_LIMITS = ArchiveLimits(members=65_534, member_bytes=2**30, total_bytes=2**32 - 1)
# A plan with tens of thousands of run keys has some megabytes.
LARGEST_DOCUMENT = 64 * 2**20
_AT_TOP = frozenset({README, SUMS, MANIFEST, PLAN, POLICY, SUITE, CONCLUSION, FOREIGN})
_RECORD = re.compile(rf"{RECORDS}/([0-9a-f]{{64}})\.json")
_OF_ATTEMPT = re.compile(
    r"(?P<folder>(?P<lane>[a-z0-9][a-z0-9._+:-]{0,63})/(?P<attempt>att_[A-Za-z0-9_-]{10,60}))/"
    r"(?:(?P<document>attempt|seal)\.json"
    r"|(?P<seq>[1-9][0-9]{0,6})-(?P<hex>[0-9a-f]{64})\.(?P<kind>zip|(?:receipt|refusal|purged)\.json))"
)
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_Model = TypeVar("_Model", bound=BaseModel)


class ExportError(ValueError):
    """An archive is no export, or not the one that it was; the message says what differs."""


class SegmentNames(NamedTuple):
    """Which files of the archive belong to one segment; None where there is none."""

    seq: int
    sha256: str
    archive: str | None
    receipt: str | None
    refusal: str | None
    purged: str | None


@dataclass
class ExportedAttempt:
    """One attempt of the plan."""

    folder: str
    document: RetainedAttempt
    seal: RetainedSeal | None
    segments: list[SegmentNames]
    sealed: frozenset[int] | None = None
    """The seq of every segment that had been received when it was sealed; None if it never was."""


class Export:
    """An archive of which every file has the digest that its manifest gives it."""

    def __init__(self, file: BinaryIO) -> None:
        """Read all of `file` once.

        Raises:
            ExportError: if it is no export, or a file is not what the manifest says.
        """
        self._file = file
        try:
            members = open_archive(file, limits=_LIMITS).members
        except ArchiveError as error:
            raise ExportError(f"It is no archive that can be read: {error.sentence}") from None
        self._members = {member.path: member for member in members}
        self.manifest = self._manifest()
        self.digests = {told.path: told.sha256 for told in self.manifest.files}
        self._expect_told_files()
        for told in self.manifest.files:
            self._expect_digest(told.path, told.sha256)

    @property
    def paths(self) -> list[str]:
        """Every file but the manifest, in the order of the archive."""
        return [path for path in self._members if path != MANIFEST]

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file of the archive."""
        return _chunks(self._file, self._members[path])

    def data(self, path: str) -> bytes:
        """Return the bytes of a document.

        Raises:
            ExportError: if it is too large for one.
        """
        if self._members[path].size_bytes > LARGEST_DOCUMENT:
            raise ExportError(f"{path} has more than {LARGEST_DOCUMENT} bytes.")
        return b"".join(self.chunks(path))

    def document(self, model: type[_Model], path: str) -> _Model:
        """Return a document of the archive; raise ExportError if it is none of its kind."""
        try:
            return parse_document(model, self.data(path))
        except DocumentError as error:
            raise ExportError(f"{path} cannot be read: {error}") from None

    def json(self, path: str) -> JsonValue:
        try:
            return _JSON.validate_json(self.data(path))
        except ValidationError:
            raise ExportError(f"{path} is no JSON.") from None

    def _manifest(self) -> ExportManifest:
        if MANIFEST not in self._members:
            raise ExportError(f"It has no {MANIFEST}: it was cut short, or is no export of a plan.")
        return self.document(ExportManifest, MANIFEST)

    def _expect_told_files(self) -> None:
        there, told = set(self.paths), [file.path for file in self.manifest.files]
        absent = sorted(set(told) - there)
        if absent:
            raise ExportError(f"It has no {_shown(absent)}, which {MANIFEST} names.")
        if len(set(told)) != len(told):
            raise ExportError(f"{MANIFEST} names a file twice.")
        extra = sorted(there - set(told))
        if extra:
            raise ExportError(f"It holds {_shown(extra)}, which {MANIFEST} does not name.")
        strange = sorted(path for path in there if not _is_known(path))
        if strange:
            raise ExportError(f"It holds {_shown(strange)}, which no export of a plan has.")

    def _expect_digest(self, path: str, wanted: str) -> None:
        found = hashlib.sha256()
        for chunk in self.chunks(path):
            found.update(chunk)
        if f"sha256:{found.hexdigest()}" != wanted:
            raise ExportError(
                f"{path} has the digest sha256:{found.hexdigest()}, not {wanted} as {MANIFEST} says."
            )


@dataclass
class ExportedPlan:
    """What an archive says of its plan, compared with itself."""

    export: Export
    document: Plan
    attempts: list[ExportedAttempt]
    conclusion: dict[str, JsonValue] | None

    @property
    def digest(self) -> str:
        return self.export.manifest.plan


def open_export(file: BinaryIO) -> ExportedPlan:
    """Return what an archive holds, after comparing every digest that it names.

    Those of the plan, its policy and suite, of decision records, segments, receipts and seals.

    Raises:
        ExportError: with the first thing that differs.
    """
    export = Export(file)
    manifest = export.manifest
    if manifest.faults:
        raise ExportError(
            "The store that it comes from had lost or damaged evidence by then:"
            f" {_shown(manifest.faults)}. Mend that store, and export the plan again."
        )
    document = _plan(export)
    _expect_other_documents(export, document)
    attempts = _attempts(export, document)
    for attempt in attempts:
        _expect_segments(export, attempt)
    return ExportedPlan(export, document, attempts, _conclusion(export))


def _plan(export: Export) -> Plan:
    for path in (PLAN, POLICY):
        if path not in export.digests:
            raise ExportError(f"It has no {path}.")
    if export.digests[PLAN] != export.manifest.plan:
        raise ExportError(
            f"{PLAN} is plan {export.digests[PLAN]}, not {export.manifest.plan} as {MANIFEST} says."
        )
    document = export.document(Plan, PLAN)
    if document_digest(export.json(PLAN)) != export.manifest.plan:
        raise ExportError(f"{PLAN} is not in its canonical form (RFC 8785).")
    return document


def _expect_other_documents(export: Export, plan: Plan) -> None:
    export.document(Policy, POLICY)
    named = {POLICY: plan.policy_digest, SUITE: plan.suite.digest}
    for path, wanted in named.items():
        if export.digests.get(path, wanted) != wanted:
            raise ExportError(f"{path} is {export.digests[path]}; the plan names {wanted}.")
    for path, found in export.digests.items():
        match = _RECORD.fullmatch(path)
        if match is not None and found != f"sha256:{match[1]}":
            raise ExportError(f"{path} has the digest {found}, which is not its name.")


def _conclusion(export: Export) -> dict[str, JsonValue] | None:
    if CONCLUSION not in export.digests:
        return None
    told = export.json(CONCLUSION)
    if not isinstance(told, dict) or told.get("plan") != export.manifest.plan:
        raise ExportError(f"{CONCLUSION} is not of plan {export.manifest.plan}.")
    return told


def _attempts(export: Export, plan: Plan) -> list[ExportedAttempt]:
    files: dict[str, list[re.Match[str]]] = defaultdict(list)
    for path in export.paths:
        match = _OF_ATTEMPT.fullmatch(path)
        if match is not None:
            files[match["folder"]].append(match)
    lanes = {lane.name for lane in plan.lanes}
    attempts = []
    for folder, found in sorted(files.items()):
        lane, key = found[0]["lane"], found[0]["attempt"]
        if lane not in lanes:
            raise ExportError(f"It holds {folder}, but the plan has no lane {lane!r}.")
        documents = {match["document"] for match in found}
        if "attempt" not in documents:
            raise ExportError(f"It has no {folder}/attempt.json.")
        document = export.document(RetainedAttempt, f"{folder}/attempt.json")
        told = (document.plan, document.lane, document.attempt)
        if told != (export.manifest.plan, lane, key):
            raise ExportError(
                f"{folder}/attempt.json is of attempt {document.attempt} of lane {document.lane!r}"
                f" of plan {document.plan}."
            )
        seal = None
        if "seal" in documents:
            seal = export.document(RetainedSeal, f"{folder}/seal.json")
        attempts.append(ExportedAttempt(folder, document, seal, list(_segments(found))))
    _expect_numbers_once(attempts)
    return attempts


def _segments(found: list[re.Match[str]]) -> Iterator[SegmentNames]:
    kinds: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    for match in found:
        if match["kind"] is not None:
            kinds[int(match["seq"]), f"sha256:{match['hex']}"][match["kind"]] = match[0]
    for (seq, sha256), paths in sorted(kinds.items()):
        yield SegmentNames(
            seq,
            sha256,
            archive=paths.get("zip"),
            receipt=paths.get("receipt.json"),
            refusal=paths.get("refusal.json"),
            purged=paths.get("purged.json"),
        )


def _expect_numbers_once(attempts: list[ExportedAttempt]) -> None:
    seen: dict[tuple[str, int], str] = {}
    for attempt in attempts:
        document = attempt.document
        other = seen.setdefault((document.lane, document.number), attempt.folder)
        if other != attempt.folder:
            raise ExportError(
                f"{attempt.folder} and {other} both say that they are attempt {document.number}."
            )


def _expect_segments(export: Export, attempt: ExportedAttempt) -> None:
    received: list[Receipt] = []
    for segment in attempt.segments:
        _expect_segment(export, segment)
        if segment.receipt is not None:
            told = export.document(Receipt, segment.receipt)
            _expect_speaks_of(segment, segment.receipt, told)
            # Of what it refused nothing is needed here.
            received.append(told.model_copy(update={"refused": []}))
        if segment.refusal is not None:
            reason = export.document(RetainedRefusal, segment.refusal)
            _expect_speaks_of(segment, segment.refusal, reason)
    twice = [seq for seq, count in Counter(r.seq for r in received).items() if count > 1]
    if twice:
        raise ExportError(f"{attempt.folder} has two receipts of segment {twice[0]}.")
    if attempt.seal is not None:
        attempt.sealed = _sealed_segments(attempt, attempt.seal, received)


def _expect_segment(export: Export, segment: SegmentNames) -> None:
    beside = segment.receipt or segment.refusal
    if segment.archive is None:
        if segment.purged is None:
            raise ExportError(f"{beside} speaks of a segment that the archive does not have.")
        return
    if export.digests[segment.archive] != segment.sha256:
        raise ExportError(
            f"{segment.archive} has the digest {export.digests[segment.archive]}, which is not its name."
        )


def _expect_speaks_of(segment: SegmentNames, path: str, told: Receipt | RetainedRefusal) -> None:
    if (told.seq, told.sha256) != (segment.seq, segment.sha256):
        raise ExportError(f"{path} speaks of segment {told.seq} with {told.sha256}.")


def _sealed_segments(
    attempt: ExportedAttempt, seal: RetainedSeal, received: list[Receipt]
) -> frozenset[int]:
    """Return which segments a seal names: those that were received until then; later ones were late."""
    ordered = sorted(received, key=lambda receipt: receipt.received_at)
    by_then = [receipt for receipt in ordered if receipt.received_at <= seal.sealed_at]
    # The clock of the server may have been set back between the last of them and the seal.
    for some in (by_then, ordered[: seal.segments]):
        digests = [SegmentDigest(receipt.seq, receipt.sha256) for receipt in some]
        if len(some) == seal.segments and seal_digest(digests) == seal.digest:
            return frozenset(receipt.seq for receipt in some)
    raise ExportError(
        f"{attempt.folder}/seal.json names {seal.segments} segments with the digest {seal.digest};"
        f" the {len(by_then)} receipts of before it are not those."
    )


def _chunks(file: BinaryIO, member: Member) -> Iterator[bytes]:
    try:
        yield from member_chunks(file, member, cap=_LIMITS.member_bytes)
    except ArchiveError as error:
        raise ExportError(f"It is no archive that can be read: {error.sentence}") from None


def _is_known(path: str) -> bool:
    return path in _AT_TOP or bool(_RECORD.fullmatch(path) or _OF_ATTEMPT.fullmatch(path))


def _shown(names: list[str]) -> str:
    first = names[0] if names[0].isprintable() else ascii(names[0])
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"
