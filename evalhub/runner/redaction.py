"""What a lane does about secrets: no item goes into a segment before it was looked through.

`redactions.json` of the spool remembers, so that a segment which is cut again gets the same bytes:
which number each secret has (as a keyed digest, never the secret), and what was replaced in which item.
"""

import hashlib
import hmac
import re
import secrets as random
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, Literal

from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.paths import ItemKind, ItemPath, PathError, format_path, parse_path
from evalhub.protocol.records import Redactions
from evalhub.protocol.redaction import Held, is_looked_at, redacted
from evalhub.protocol.scalars import Count, Record
from evalhub.protocol.secrets import HEAD_BYTES, Secret
from evalhub.runner.documents import write_whole
from evalhub.runner.errors import InputError
from evalhub.runner.members import Member
from evalhub.runner.own_copies import rewrite

_BODY_PREFIX = "body-"
_BODY_FIELD = re.compile(rb'("body"[ ]{0,4}:[ ]{0,4}"sha256:)([0-9a-f]{64})')
_KEY_BEGINS, _KEY_ENDS = b"PRIVATE KEY", b"-----END"
# Digits of base64, or a header of the key. The last line, which has dashes, is none of them.
_KEY_LINE = re.compile(rb"\s*(?:[A-Za-z0-9+/=]{1,200}|[A-Za-z-]{4,20}: .{0,200})?\s*")
# The longest keys in use have a hundred.
_MOST_KEY_LINES = 400


class _ItemNote(Record):
    """What was done to one item."""

    counts: dict[str, Count] = {}
    looked_at: bool = True


class _Memory(Record):
    """`redactions.json` of the spool."""

    schema_: Literal["evalhub.redactions/1"] = "evalhub.redactions/1"
    salt: str
    numbers: dict[str, list[str]] = {}
    """By kind: the keyed digest of each secret, in the order of their numbers."""
    items: dict[str, _ItemNote] = {}
    lines: dict[str, Count] = {}
    """By kind: how many markers were put into lines of the log."""
    renamed: dict[str, str] = {}
    """Long texts that have another digest since: before and after."""


class LogLines:
    """The lines of one program's output: a private key is told of over many of them."""

    def __init__(self, redaction: "Redaction") -> None:
        self._redaction = redaction
        self._waiting: list[bytes] = []

    def cleaned(self, line: bytes) -> list[bytes]:
        """Return what may be written now: nothing while a key goes on, and then all of it."""
        if self._waiting:
            goes_on = _KEY_LINE.fullmatch(line) and len(self._waiting) < _MOST_KEY_LINES
            self._waiting.append(line)
            return [] if goes_on else self.rest()
        if _KEY_BEGINS in line and _KEY_ENDS not in line:
            self._waiting.append(line)
            return []
        return [self._redaction.cleaned_line(line)]

    def rest(self) -> list[bytes]:
        """Return what still waits when the output is over."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        return self._redaction.cleaned_line(b"\n".join(waiting)).split(b"\n")


class Redaction:
    """The secrets of one attempt. Safe to use from several threads of the process that holds it."""

    def __init__(self, folder: Path, held: Iterable[Secret]) -> None:
        self._path = folder / "redactions.json"
        self._held = Held(held)
        self._guard = threading.Lock()
        memory = _remembered(self._path)
        self._salt = memory.salt
        self._numbers = dict(memory.numbers)
        self._items = dict(memory.items)
        self._lines = Counter(memory.lines)
        self._renamed = dict(memory.renamed)
        self._is_saved = True

    def cleaned(self, members: Iterable[Member]) -> list[Member]:
        """Return items without secrets, each under the path that its content then has.

        What lies in an open file is changed there.
        Equal items give equal ones, in this process and in a later one over the same spool.

        Raises:
            InputError: if what was done cannot be remembered, for want of room, say.
        """
        clean = [self._cleaned_one(member) for member in members]
        if self._renamed:
            clean = [_with_new_names(member, self._renamed) for member in clean]
        self._save()
        return clean

    def cleaned_line(self, line: bytes) -> bytes:
        """Return a line of the lane's log without secrets, and count them."""
        done = redacted(line, ItemKind.LOG, held=self._held, number=self._number)
        if done.is_changed:
            with self._guard:
                self._lines.update(done.counts)
                self._is_saved = False
        return done.data

    def cleaned_sentence(self, sentence: str) -> str:
        """Return a sentence that may quote what an agent wrote, for people and logs of CI."""
        data = sentence.encode(errors="surrogatepass")
        done = redacted(data, ItemKind.LOG, held=self._held, number=self._number)
        return done.data.decode(errors="surrogatepass")

    def hold(self, value: str, *, kind: str) -> None:
        """Know one more secret by its value, from now on."""
        self._held = self._held.with_one_more(Secret(kind, value, is_held=True))

    def record(self, paths: Iterable[str]) -> Redactions:
        """Return `lane/redactions.json`: what was replaced in items that are in segments."""
        with self._guard:
            notes = [self._items[path] for path in paths if path in self._items]
            counts = Counter(self._lines)
        for note in notes:
            counts.update(note.counts)
        return Redactions(
            counts=dict(sorted(counts.items())),
            not_looked_at=sum(not note.looked_at for note in notes),
        )

    def _cleaned_one(self, member: Member) -> Member:
        item = _parsed(member.path)
        content = member.content
        counts: Counter[str] = Counter()
        path = self._named(member.path, item, counts)
        kind = item.kind if item is not None else ItemKind.FILE
        if not is_looked_at(_read(content, most=HEAD_BYTES), kind):
            self._note(path, _ItemNote(counts=dict(counts), looked_at=False))
            return member._replace(path=path)
        data = _read(content)
        done = redacted(data, kind, held=self._held, number=self._number)
        counts.update(done.counts)
        if done.is_changed:
            if isinstance(content, bytes):
                content = done.data
            else:
                rewrite(content, done.data)
            path = self._renamed_body(path, item, old=data, new=done.data)
        if counts:
            self._note(path, _ItemNote(counts=dict(counts)))
        return member._replace(path=path, content=content)

    def _renamed_body(self, path: str, item: ItemPath | None, *, old: bytes, new: bytes) -> str:
        """Return the path of a long text, to which a turn refers by its digest: another one now."""
        before, after = _hex_digest(old), _hex_digest(new)
        if item is None or item.name != f"{_BODY_PREFIX}{before}":
            return path
        with self._guard:
            self._renamed[before] = after
            self._is_saved = False
        return format_path(item._replace(name=f"{_BODY_PREFIX}{after}"))

    def _named(self, path: str, item: ItemPath | None, counts: Counter[str]) -> str:
        """Return the path of an attachment whose own name shows no secret."""
        if item is None or item.kind is not ItemKind.FILE or item.name is None:
            return path
        name = item.name.encode(errors="surrogatepass")
        done = redacted(name, ItemKind.LOG, held=self._held, number=self._number)
        if not done.is_changed:
            return path
        counts.update(done.counts)
        return format_path(item._replace(name=done.data.decode(errors="surrogatepass")))

    def _number(self, secret: Secret) -> int:
        digest = hmac.new(
            self._salt.encode(), secret.value.encode(errors="surrogatepass"), hashlib.sha256
        ).hexdigest()
        with self._guard:
            known = self._numbers.setdefault(secret.kind, [])
            if digest not in known:
                known.append(digest)
                self._is_saved = False
            return known.index(digest) + 1

    def _note(self, path: str, note: _ItemNote) -> None:
        with self._guard:
            if self._items.get(path) != note:
                self._items[path] = note
                self._is_saved = False

    def _save(self) -> None:
        with self._guard:
            if self._is_saved:
                return
            memory = _Memory(
                salt=self._salt,
                numbers=self._numbers,
                items=self._items,
                lines=dict(self._lines),
                renamed=self._renamed,
            )
            # Before any segment is written that goes by it.
            data = memory.model_dump_json(by_alias=True).encode()
            write_whole(self._path, data, mode=0o600)
            self._is_saved = True


def _with_new_names(member: Member, renamed: Mapping[str, str]) -> Member:
    if not isinstance(member.content, bytes) or "/transcript." not in member.path:
        return member
    content = _BODY_FIELD.sub(
        lambda found: found[1] + renamed.get(found[2].decode(), found[2].decode()).encode(),
        member.content,
    )
    return member._replace(content=content)


def _read(content: bytes | BinaryIO, *, most: int = -1) -> bytes:
    if isinstance(content, bytes):
        return content
    content.seek(0)
    return content.read(most)


def _hex_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _parsed(path: str) -> ItemPath | None:
    try:
        return parse_path(path)
    except PathError:
        return None


def _remembered(path: Path) -> _Memory:
    try:
        return parse_document(_Memory, path.read_bytes())
    except FileNotFoundError:
        return _Memory(salt=random.token_hex(16))
    except (OSError, DocumentError) as error:
        raise InputError(
            f"{path} cannot be read: {error}; expected what the lane wrote there: without it, "
            "secrets would get other numbers than in the segments that were sent."
        ) from None
