"""The spool: a folder per attempt in which evidence waits until the store has receipted it.

    lane.json                       which attempt this is; `plan.json` beside it
    runs/<scenario>/<arm>/<epoch>/  where the agent writes
    ended/<scenario>/<arm>/<epoch>.json   how that run ended; only then is its folder evidence
    logs/agent.log                  what the runs wrote to their output
    segments/000001.zip             immutable from the moment that the name exists
    segments/000001.receipt.json    the store's promise; without it the segment is sent again
    segments/000001.refused.txt     the store's refusal of the whole segment
    origins.ndjson                  what of a growing file each of its parts was made of (see `origins`)
    redactions.json                 which secret has which number, and what was replaced in which item
    over.json                       the lane's last word: how many segments there are, if it lived to say

Segments are the state: what was cut is what their members say, so a crash at any moment loses
nothing that was on disk, and `evalhub push` can go on from a copy on another machine. No token
is ever written here.
"""

import threading
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Literal

from evalhub.protocol.archive import write_segment
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.paths import ItemKind, ItemPath, format_path, run_folder
from evalhub.protocol.plan import Plan, RunKey
from evalhub.protocol.scalars import Count, DigestText, Name, Record, Time
from evalhub.protocol.segments import Receipt, SegmentDigest, SegmentHeader
from evalhub.protocol.zip_structure import ArchiveError
from evalhub.runner.documents import JsonObject, write_whole
from evalhub.runner.errors import DISK_FULL, DiskFullError, InputError, RunnerError
from evalhub.runner.members import LeftFile, Member, batches
from evalhub.runner.origins import ORIGINS, Origins, sync_folder
from evalhub.runner.own_copies import in_own_copies
from evalhub.runner.redaction import Redaction
from evalhub.runner.redaction_values import secrets_of_this_process
from evalhub.runner.segment_files import Segment, kept_answer, whole_segment
from evalhub.runner.spool_folders import disk_names

SegmentClass = Literal["record", "bulk"]


class SpoolError(RunnerError):
    """The spool cannot take more: its folder is gone, say. A full disk is a DiskFullError."""


class LaneState(Record):
    """`lane.json`: all that is needed to send the rest of an attempt, from any machine."""

    schema_: Literal["evalhub.spool/1"] = "evalhub.spool/1"
    plan: DigestText
    lane: Name
    attempt: str
    store: str
    opened_at: Time
    segment_bytes: Count


class RunEnded(Record):
    """`ended/….json`: how a run ended, as the lane saw it."""

    how: Literal[
        "exited", "setup_error", "timeout", "guardian_lost", "not_started", "budget_exceeded"
    ]
    exit_code: int | None = None
    error: str | None = None
    started_at: Time
    finished_at: Time
    duration_ms: Count
    output_tail: str = ""
    """The end of what the run wrote to its output."""


class _Over(Record):
    """`over.json`: the lane has cut all that it had."""

    segments: Count


class Spool:
    """One attempt's evidence on disk. Safe to use from several threads of the process that holds it."""

    def __init__(self, folder: Path, state: LaneState, plan: Plan) -> None:
        self.folder = folder
        self.state = state
        self.plan = plan
        self.lane = plan.lane(state.lane)
        self._guard = threading.Lock()
        self._segments: list[Segment] = []
        self._cut_paths: dict[str, int] = {}
        self._answers: dict[int, Receipt | str] = {}
        """What the store said of a segment: a receipt, or why it refused."""
        self.left_out: list[str] = []
        """Items that no segment can hold, each as a sentence."""
        self._origins = Origins(folder)
        self.redaction = Redaction(folder, secrets_of_this_process())

    @classmethod
    def created(cls, folder: Path, state: LaneState, *, plan: Plan, plan_bytes: bytes) -> "Spool":
        """Lay out a new spool.

        Raises:
            InputError: if the folder holds one already, or cannot be written.
        """
        if (folder / "lane.json").exists():
            raise InputError(
                f"{folder} holds the spool of another attempt; send it with `evalhub push {folder}` "
                "and name another --spool."
            )
        for name in ("runs", "ended", "logs", "segments"):
            (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(folder / "plan.json", plan_bytes)
        (folder / ORIGINS).touch(mode=0o600)
        # Last: a folder without it was never a spool.
        write_whole(folder / "lane.json", state.model_dump_json(by_alias=True).encode())
        # From here on the names of the files outlive the machine; those of segments see to it themselves.
        for place in (folder, folder.parent):
            sync_folder(place)
        return cls(folder, state, plan)

    @classmethod
    def opened(cls, folder: Path) -> "Spool":
        """Open a spool that another process left behind.

        Raises:
            InputError: if the folder holds none, or one that cannot be read or is not whole.
        """
        spool = cls.opened_to_follow(folder)
        spool.look_again()
        missing = spool.place_of_next()
        if missing.exists():
            raise InputError(
                f"{missing} is damaged; copy the spool again from the machine that wrote it."
            )
        later = [path for path in missing.parent.glob("[0-9]*.zip") if path > missing]
        if later:
            raise InputError(
                f"{missing} is not there, and {min(later).name} is; copy the spool again, whole, from "
                "the machine that wrote it."
            )
        return spool

    @classmethod
    def opened_to_follow(cls, folder: Path) -> "Spool":
        """Open a spool that another process writes to, as yet without its segments.

        Raises:
            InputError: if the folder holds none, or one that cannot be read (now).
        """
        try:
            state = parse_document(LaneState, (folder / "lane.json").read_bytes())
            plan = parse_document(Plan, (folder / "plan.json").read_bytes())
        except OSError:
            raise InputError(
                f"{folder} is no spool; expected a folder with lane.json and plan.json, "
                "as `evalhub lane run --spool` leaves it."
            ) from None
        except DocumentError as error:
            raise InputError(f"{folder} is a spool that cannot be read: {error}") from None
        return cls(folder, state, plan)

    # Runs

    def run_folder(self, key: RunKey) -> Path:
        return self.folder.joinpath(*disk_names(run_folder(key)))

    def ended_path(self, key: RunKey) -> Path:
        _, scenario, arm, epoch = disk_names(run_folder(key))
        return self.folder / "ended" / scenario / arm / f"{epoch}.json"

    def mark_ended(self, key: RunKey, ended: RunEnded) -> None:
        write_whole(self.ended_path(key), ended.model_dump_json().encode())

    def ended(self, key: RunKey) -> RunEnded | None:
        """Return how a run ended; None if it did not, or the lane died before it could say."""
        try:
            return parse_document(RunEnded, self.ended_path(key).read_bytes())
        except (OSError, DocumentError):
            return None

    # The environment as it was at start, for a lane that did not live to write how it ended

    def remember_environment(self, record: bytes) -> None:
        write_whole(self.folder / "environment.draft.json", record)

    def remembered_environment(self) -> bytes | None:
        try:
            return (self.folder / "environment.draft.json").read_bytes()
        except FileNotFoundError:
            return None

    # Segments

    def segments(self) -> list[Segment]:
        with self._guard:
            return list(self._segments)

    def has(self, path: str) -> bool:
        """Return whether an item of this path is in a segment."""
        with self._guard:
            return path in self._cut_paths

    def origin_of(self, path: str) -> JsonObject | None:
        """Return what a part in a segment was made of; None if that is not known."""
        with self._guard:
            return self._origins.of(path) if path in self._cut_paths else None

    def content_of(self, path: str) -> bytes:
        """Return the bytes of an item in a segment."""
        for segment in self.segments():
            with zipfile.ZipFile(segment.path) as archive:
                if path in archive.namelist():
                    return archive.read(path)
        raise KeyError(path)

    def cut_bytes(self, prefix: str) -> int:
        """Return how many bytes of items whose path begins so are in segments."""
        with self._guard:
            return sum(size for path, size in self._cut_paths.items() if path.startswith(prefix))

    def count(self, prefix: str) -> int:
        """Return how many items whose path begins so are in segments."""
        with self._guard:
            return sum(path.startswith(prefix) for path in self._cut_paths)

    def cut(
        self, kind: SegmentClass, members: Iterable[Member | LeftFile], *, at: datetime
    ) -> list[Segment]:
        """Write items that are in no segment yet into as many segments as they need.

        Raises:
            DiskFullError: if there is no room for one; those before it stand.
            SpoolError: if one cannot be written for another reason.
        """
        fresh = (member for member in members if not self.has(member.path))
        groups = in_own_copies(fresh, folder=self.folder, leave_out=self._leave_out)
        with closing(groups):
            return [segment for group in groups for segment in self._cut_group(kind, group, at)]

    def _cut_group(self, kind: SegmentClass, group: list[Member], at: datetime) -> list[Segment]:
        clean = self.redaction.cleaned(group)
        with self._guard:
            fresh = [member for member in clean if member.path not in self._cut_paths]
            whole = batches(fresh, limit=self.state.segment_bytes)
            cut = [self._written(kind, batch, at) for batch in whole]
            return [segment for segment in cut if segment is not None]

    def _leave_out(self, sentence: str) -> None:
        """Keep what could not be sent, once: what waited for room is tried again."""
        clean = self.redaction.cleaned_sentence(sentence)
        if clean not in self.left_out:
            self.left_out.append(clean)

    def redactions(self) -> Member:
        """Return `lane/redactions.json` over what is in segments now."""
        with self._guard:
            record = self.redaction.record(self._cut_paths)
        path = format_path(ItemPath(ItemKind.REDACTIONS))
        return Member(path, record.model_dump_json().encode())

    def digests(self) -> list[SegmentDigest]:
        """Return what a seal names: every segment but those that the store refused whole."""
        answers = self._all_answers()
        return [
            SegmentDigest(segment.seq, segment.sha256)
            for segment, answer in answers
            if not isinstance(answer, str)
        ]

    def unsent(self) -> list[Segment]:
        return [segment for segment, answer in self._all_answers() if answer is None]

    def refusals(self) -> list[str]:
        """Return why the store refused whole segments, each as a sentence."""
        return [
            f"{segment.path.name}: {answer}"
            for segment, answer in self._all_answers()
            if isinstance(answer, str)
        ]

    def receipts(self) -> list[Receipt]:
        return [answer for _, answer in self._all_answers() if isinstance(answer, Receipt)]

    def recall(self, segment: Segment) -> bool:
        """Take over what another process kept of the store's answer; return whether there was one."""
        answer = kept_answer(segment)
        if answer is not None:
            self._answers[segment.seq] = answer
        return answer is not None

    def note_receipt(self, segment: Segment, receipt: Receipt) -> None:
        """Keep what the store promised: here at once, and beside the segment for other processes.

        Raises:
            InputError: if it cannot be written; it counts in this process all the same.
        """
        self._answers[segment.seq] = receipt
        write_whole(segment.receipt_path, receipt.model_dump_json().encode())

    def note_refusal(self, segment: Segment, reason: str) -> None:
        """Keep why the store refused a whole segment; as `note_receipt`."""
        self._answers[segment.seq] = reason.strip()
        write_whole(segment.refused_path, f"{reason}\n".encode())

    def _all_answers(self) -> list[tuple[Segment, Receipt | str | None]]:
        return [(segment, self._answers.get(segment.seq)) for segment in self.segments()]

    def _written(
        self, kind: SegmentClass, members: Sequence[Member], at: datetime
    ) -> Segment | None:
        seq = self._segments[-1].seq + 1 if self._segments else 1
        path = self.folder / "segments" / f"{seq:06}.zip"
        header = SegmentHeader(
            project=self.plan.project,
            plan=self.state.plan,
            lane=self.state.lane,
            attempt=self.state.attempt,
            seq=seq,
            class_=kind,
            tested_sha=self.tested_sha,
            created_at=at,
        )
        sizes = {member.path: member.size_bytes for member in members}
        try:
            self._origins.note({m.path: m.origin for m in members if m.origin is not None})
            written = write_segment(path, header, [(m.path, m.content) for m in members])
        except (OSError, ArchiveError) as error:
            reason = getattr(error, "strerror", None) or error
            is_full = isinstance(error, OSError) and error.errno in DISK_FULL
            refusal = DiskFullError if is_full else SpoolError
            raise refusal(
                f"{path} cannot be written: {reason}; make room there, then go on with "
                f"`evalhub push {self.folder}`."
            ) from None
        if written.size_bytes > self.state.segment_bytes:
            # Only one that holds a single large item: batches stay below the limit.
            path.unlink()
            self._leave_out(
                f"{members[0].path} has {written.size_bytes} bytes even when packed and is not sent; "
                f"the store takes segments of at most {self.state.segment_bytes}."
            )
            return None
        segment = Segment(seq, path, written.sha256)
        self._segments.append(segment)
        self._cut_paths.update(sizes)
        return segment

    @property
    def tested_sha(self) -> str | None:
        """The commit that the lane's arms run; a lane has only one."""
        return self.plan.arm(self.lane.run_keys[0].arm).sha

    def look_again(self, *, least_age_seconds: float = 0) -> bool:
        """Take up segments that another process has named; return whether there are any.

        Only in their order, and only whole ones: of a copy that is under way the rest is left for later.
        """
        any_new = False
        while True:
            path = self.place_of_next()
            found = whole_segment(
                path, attempt=self.state.attempt, least_age_seconds=least_age_seconds
            )
            if found is None:
                return any_new
            with self._guard:
                self._segments.append(found.segment)
                self._cut_paths.update(found.sizes)
            self.recall(found.segment)
            any_new = True

    def place_of_next(self) -> Path:
        """Return where the next segment will lie."""
        with self._guard:
            seq = self._segments[-1].seq + 1 if self._segments else 1
        return self.folder / "segments" / f"{seq:06}.zip"

    # The lane's last word

    def note_over(self) -> None:
        """Say that all that the lane had is in segments, to whoever has only a copy of them."""
        over = _Over(segments=len(self.segments()))
        write_whole(self.folder / "over.json", over.model_dump_json().encode())

    def is_over(self) -> bool:
        """Return whether the lane said so, and everything that it cut is here."""
        try:
            over = parse_document(_Over, (self.folder / "over.json").read_bytes())
        except (OSError, DocumentError):
            return False
        return len(self.segments()) >= over.segments
