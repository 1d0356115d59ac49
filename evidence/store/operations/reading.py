"""Opens a segment and sorts its items, looking at nothing but the plan and the bytes."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO, NamedTuple

from pydantic_core import from_json

from evalhub.protocol.archive import (
    Archive,
    member_chunks,
    open_archive,
    read_member,
    stored_bytes_of,
)
from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.faults import DocumentError, parse_document, refuse_repeated_fields
from evalhub.protocol.paths import RECORD_KINDS, ItemKind, ItemPath, PathError, parse_path
from evalhub.protocol.plan import RunKey
from evalhub.protocol.redaction import Seen, counts_of_each, redacted_text
from evalhub.protocol.segments import HEADER_PATH, Category, SegmentHeader
from evalhub.protocol.zip_structure import ArchiveError, ArchiveLimits, Member
from evalhub.tasks.clock_jumps import CLOCK_SKEW
from evidence.store.operations.contents import (
    CallCost,
    Content,
    Unfit,
    UnfitError,
    check_attachment,
    checked_content,
    judge_costs,
    line_cost,
)
from evidence.store.operations.secrets import counts_in_words

_HEADER_BYTES = 64 * 2**10
_RECORD_BYTES = 8 * 2**20
# WIRE: parts of at most 1 MB; a lane that counts without its last line is not refused.
_TRANSCRIPT_BYTES = 2**20 + 2**17
_ATTACHMENT_BYTES = 64 * 2**20
# Not parsed. Larger ones are not held in memory here: a sweep looks for secrets in them.
_OPAQUE = frozenset({ItemKind.FILE, ItemKind.LOG})
_LOOKED_AT_BYTES = 4 * 2**20
_LIMITS = ArchiveLimits(member_bytes=_ATTACHMENT_BYTES)
_LONGEST_NAME = 300
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_JUDGE_NAME = re.compile(rb"runs/[A-Za-z0-9_%/-]{1,900}/judge\.[0-9]{1,6}\.ndjson")
_SCHEMAS = {"schema": "evalhub.segment/1", "records": "evalhub.records/1"}


class Expected(NamedTuple):
    """What a segment of one attempt must say of itself, and who owns which run key."""

    project: str
    plan: str
    lane: str
    attempt: str
    tested_sha: str | None
    opened_at: datetime
    received_at: datetime
    clock_shown_at: datetime
    """The latest time that this server's clock has shown; later than `received_at` if it was set back."""
    owners: Mapping[RunKey, str]


class AcceptedItem(NamedTuple):
    """An item that is sound in itself; whether it is the first of its path, the rows decide."""

    path: str
    item: ItemPath
    member: Member
    sha256: str
    content: Content
    secrets: str | None = None
    """As the item's row keeps it; None of an item that is left to the sweep."""


class RefusedItem(NamedTuple):
    path: str
    unfit: Unfit
    sha256: str
    size_bytes: int


@dataclass
class Money:
    """What the judge lines of a segment cost, those of refused items too.

    `unknown` counts, by path, the lines whose cost cannot be read.
    """

    calls: list[CallCost] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)


@dataclass
class SegmentContent:
    """A sorted segment. `header` is None while it is not known to be for this address.

    It is not `is_whole` where only rows could tell what was in bytes that were removed.
    """

    header: SegmentHeader | None = None
    accepted: list[AcceptedItem] = field(default_factory=list)
    refused: list[RefusedItem] = field(default_factory=list)
    money: Money = field(default_factory=Money)
    is_whole: bool = True
    unseen: dict[int, bytes] = field(default_factory=dict)
    """By place among the accepted: bytes in which nobody has looked for secrets yet."""
    unseen_bytes: int = 0

    def refuse_all(self, unfit: Unfit) -> None:
        """Move every accepted item to the refused ones; the money stays."""
        self.refused += [refused(item, unfit) for item in self.accepted]
        self.accepted = []


class SegmentUnfitError(Exception):
    """A whole segment is refused: no safe archive, or no header for this address; no receipt."""

    def __init__(self, unfit: Unfit, money: Money) -> None:
        super().__init__(unfit.detail)
        self.unfit = unfit
        self.money = money


def refused(item: AcceptedItem, unfit: Unfit) -> RefusedItem:
    """Return a sound item as one that does not count."""
    return RefusedItem(item.path, unfit, item.sha256, item.member.size_bytes)


def sorted_segment(file: BinaryIO, *, expected: Expected, seq: int) -> SegmentContent:
    """Return the items of a segment, each accepted or refused.

    Raises:
        SegmentUnfitError: if it is no safe archive, or its header is not one for this address.
    """
    try:
        archive = open_archive(file, limits=_LIMITS)
    except ArchiveError as error:
        unfit = _safe(Unfit(Category.MALFORMED, error.code, error.sentence))
        raise SegmentUnfitError(unfit, Money(unknown=_named_judge_items(file))) from None
    content = SegmentContent()
    whole = None
    try:
        content.header = _header(file, archive, expected, seq)
    except UnfitError as error:
        # The items are read all the same: what their judge calls cost was spent.
        whole = error.unfit
    for member in archive.members:
        if member.path != HEADER_PATH:
            _sort_item(file, member, expected, content)
        if content.unseen_bytes >= _LOOKED_AT_BYTES:
            _look_at(content)
    _look_at(content)
    if content.header is None:
        assert whole is not None  # noqa: S101 - one of the two is set above
        raise SegmentUnfitError(_safe(whole), content.money)
    stale = _staleness(content.header, expected)
    if stale is not None:
        content.refuse_all(stale)
    return content


def _header(file: BinaryIO, archive: Archive, expected: Expected, seq: int) -> SegmentHeader:
    first = archive.members[0]
    if first.path != HEADER_PATH:
        raise UnfitError(
            Category.MALFORMED,
            "no_header",
            f"The first member is {first.path!r}, not {HEADER_PATH}.",
        )
    try:
        data = read_member(file, first, cap=_HEADER_BYTES)
    except ArchiveError as error:
        raise UnfitError(Category.MALFORMED, error.code, error.sentence) from None
    try:
        header = parse_document(SegmentHeader, data)
        refuse_repeated_fields(data)
    except DocumentError as error:
        _refuse_other_schema(data)
        raise UnfitError(Category.MALFORMED, "invalid_header", f"{HEADER_PATH}: {error}") from None
    claims = {
        "project": (header.project, expected.project),
        "plan": (header.plan, expected.plan),
        "lane": (header.lane, expected.lane),
        "attempt": (header.attempt, expected.attempt),
        "seq": (header.seq, seq),
    }
    for name, (said, wanted) in claims.items():
        if said != wanted:
            raise UnfitError(
                Category.UNEXPECTED,
                f"other_{name}",
                f"{HEADER_PATH}: /{name} was {said}; expected {wanted}, to which it was sent.",
            )
    return header


def _refuse_other_schema(data: bytes) -> None:
    try:
        document = from_json(data)
    except ValueError:
        return
    said = document if isinstance(document, dict) else {}
    for name, known in _SCHEMAS.items():
        if isinstance(said.get(name), str) and said[name] != known:
            raise UnfitError(
                Category.INCOMPATIBLE,
                "unknown_schema",
                f"{HEADER_PATH}: /{name} was {said[name]!r:.80}; this server reads {known}.",
            )


def _staleness(header: SegmentHeader, expected: Expected) -> Unfit | None:
    if header.tested_sha != expected.tested_sha:
        return Unfit(
            Category.STALE,
            "other_commit",
            f"The segment is of commit {header.tested_sha}; the lane runs {expected.tested_sha}.",
        )
    if expected.received_at < expected.opened_at:
        # This server's clock was set back: by it nobody can say what came first.
        return None
    if header.created_at < expected.opened_at - CLOCK_SKEW:
        return Unfit(
            Category.STALE,
            "made_before_attempt",
            f"The segment was made at {header.created_at:%Y-%m-%dT%H:%M:%SZ}, more than 5 minutes"
            f" before its attempt was opened at {expected.opened_at:%Y-%m-%dT%H:%M:%SZ}; if it was"
            " not, set the clock of the lane's machine.",
        )
    if header.created_at > expected.clock_shown_at + CLOCK_SKEW:
        return Unfit(
            Category.STALE,
            "made_in_future",
            f"The segment says that it was made at {header.created_at:%Y-%m-%dT%H:%M:%SZ}, more"
            f" than 5 minutes after it arrived at {expected.received_at:%Y-%m-%dT%H:%M:%SZ}; set"
            " the clock of the lane's machine.",
        )
    return None


class _Bytes(NamedTuple):
    """What was read of a member: its digest, and its bytes if they are of a kind and size to look at."""

    sha256: str
    data: bytes | None
    broken: Unfit | None


def _sort_item(file: BinaryIO, member: Member, expected: Expected, into: SegmentContent) -> None:
    item, unfit = _placed(member.path, expected, into.header.class_ if into.header else None)
    found = _bytes_of(file, member, item)
    unfit = unfit or found.broken
    checked = Content()
    if unfit is None and item is not None:
        try:
            checked = _checked(item, member, found)
        except UnfitError as error:
            unfit = error.unfit
    if item is not None and item.kind is ItemKind.JUDGE:
        _note_money(into.money, member.path, checked, found.data)
    if unfit is not None:
        refusal = RefusedItem(member.path, _safe(unfit), found.sha256, member.size_bytes)
        into.refused.append(refusal)
    elif item is not None:
        into.accepted.append(AcceptedItem(member.path, item, member, found.sha256, checked))
        if found.data is not None:
            into.unseen[len(into.accepted) - 1] = found.data
            into.unseen_bytes += len(found.data)


def _safe(unfit: Unfit) -> Unfit:
    """Return a reason that can go into logs, pages and answers: it quotes what was sent."""
    return unfit._replace(detail=redacted_text(unfit.detail))


def _look_at(content: SegmentContent) -> None:
    """Look for secrets in the items that wait for it, and let go of their bytes."""
    accepted, unseen = content.accepted, content.unseen
    seen = [Seen(accepted[n].item.kind, data, accepted[n].item.name) for n, data in unseen.items()]
    for number, counts in zip(unseen, counts_of_each(seen), strict=True):
        accepted[number] = accepted[number]._replace(secrets=counts_in_words(counts))
    unseen.clear()
    content.unseen_bytes = 0


def _bytes_of(file: BinaryIO, member: Member, item: ItemPath | None) -> _Bytes:
    try:
        if item is None or member.size_bytes > _cap(item):
            return _Bytes(_streamed_digest(file, member), None, None)
        data = read_member(file, member, cap=_cap(item))
    except ArchiveError as error:
        broken = Unfit(Category.MALFORMED, error.code, error.sentence)
        return _Bytes(bytes_digest(stored_bytes_of(file, member)), None, broken)
    return _Bytes(bytes_digest(data), data, None)


def _placed(
    path: str, expected: Expected, class_: str | None
) -> tuple[ItemPath | None, Unfit | None]:
    """Return what a path says, and why it does not belong into this segment if so."""
    try:
        item = parse_path(path)
    except PathError as error:
        return None, Unfit(Category.MALFORMED, "invalid_path", f"{error}.")
    if item.name is not None and (len(item.name) > _LONGEST_NAME or _CONTROL.search(item.name)):
        detail = f"A name has at most {_LONGEST_NAME} characters, none of them a control character."
        return item, Unfit(Category.MALFORMED, "invalid_path", detail)
    if item.run is not None and expected.owners.get(item.run) != expected.lane:
        return item, _foreign(item.run, expected)
    if class_ is not None and (item.kind in RECORD_KINDS) != (class_ == "record"):
        detail = f"A {item.kind} does not belong into a segment of class {class_}."
        return item, Unfit(Category.UNEXPECTED, "other_class", detail)
    return item, None


def _foreign(run: RunKey, expected: Expected) -> Unfit:
    owner = expected.owners.get(run)
    if owner is None:
        return Unfit(Category.UNEXPECTED, "not_planned", f"The plan has no run key {str(run)!r}.")
    return Unfit(
        Category.UNEXPECTED, "other_lane", f"Run key {str(run)!r} belongs to lane {owner}."
    )


def _cap(item: ItemPath) -> int:
    if item.kind in _OPAQUE:
        return _LOOKED_AT_BYTES
    return _TRANSCRIPT_BYTES if item.kind is ItemKind.TRANSCRIPT else _RECORD_BYTES


def _checked(item: ItemPath, member: Member, found: _Bytes) -> Content:
    if item.kind is ItemKind.FILE:
        check_attachment(item, found.sha256)
    if item.kind in _OPAQUE:
        return Content()
    if found.data is None:
        detail = f"The item has {member.size_bytes} bytes; at most {_cap(item)} are taken."
        raise UnfitError(Category.MALFORMED, "too_large", detail)
    return checked_content(item, found.data)


def _note_money(money: Money, path: str, checked: Content, data: bytes | None) -> None:
    if checked.judge_lines:
        money.calls += [line_cost(line) for line in checked.judge_lines]
    elif data is None:
        # How many lines there were cannot be told; that there was at least one, can.
        money.unknown[path] = 1
    else:
        costs = judge_costs(data)
        money.calls += costs.calls
        if costs.unreadable_lines:
            money.unknown[path] = costs.unreadable_lines


def _streamed_digest(file: BinaryIO, member: Member) -> str:
    digest = hashlib.sha256()
    for chunk in member_chunks(file, member, cap=_ATTACHMENT_BYTES):
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def _named_judge_items(file: BinaryIO) -> dict[str, int]:
    """Return the judge items that a broken archive names: at least one line of each was paid for."""
    file.seek(0)
    names: set[bytes] = set()
    tail = b""
    while chunk := file.read(2**20):
        names.update(_JUDGE_NAME.findall(tail + chunk))
        tail = chunk[-1000:]
    return {name.decode(): 1 for name in sorted(names)}
