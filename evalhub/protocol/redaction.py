"""Puts markers where secrets stand in evidence, and changes nothing else. Pure; for lane and server.

A document stays a document: only the contents of JSON strings change, never a number, the name of a
field of ours, or a field that names something (a digest, a rubric, an outcome). What holds no secret keeps its bytes.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, islice
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from evalhub.protocol.markers import MARKER, marker
from evalhub.protocol.paths import ItemKind
from evalhub.protocol.secrets import Secret, is_binary, plain_text, secrets_in

_MARKER_BYTES = re.compile(MARKER.pattern.encode())
_NONE: frozenset[str] = frozenset()
_SPACE = b" \t\r\n"
# Shorter ones could stand across a line's end by chance.
_SPLIT_FROM = 16
_BLOCK_BYTES = 64
_SHORT_TEXT_BYTES = 4096
# Each is looked for by itself, so an item that is made of keys is not picked apart.
_MOST_SECRETS = 200
MANY = "many"
"""The kind of the marker that stands for a whole text of an item with very many secrets."""

_DOCUMENTS = frozenset(
    {
        ItemKind.RESULT,
        ItemKind.FAILURE,
        ItemKind.PREFLIGHT,
        ItemKind.ENVIRONMENT,
        ItemKind.REDACTIONS,
    }
)
_LINES = frozenset({ItemKind.TRANSCRIPT, ItemKind.JUDGE, ItemKind.FAULTS, ItemKind.PROBES})
# What statistics, money and links go by.
_NAMING_FIELDS: dict[ItemKind, frozenset[str]] = {
    ItemKind.RESULT: frozenset({"outcome", "started_at", "finished_at", "scores", "world"}),
    ItemKind.TRANSCRIPT: frozenset({"turn", "at", "role", "kind", "body"}),
    ItemKind.JUDGE: frozenset(
        {"call_id", "rubric", "stage", "fingerprint", "unscored_reason", "at", "cost_source"}
    ),
    ItemKind.PROBES: frozenset({"probe", "digest", "category", "source", "result", "at"}),
    ItemKind.ENVIRONMENT: frozenset(
        {"tier", "image_digest", "lockfile_digest", "machine", "simulators", "pool"}
    ),
}
# A marker can be longer than what it stands for, and these fields take no text without end.
_BOUNDED_FIELDS = frozenset(
    {
        "agent", "by", "call_id", "category", "code", "file", "fix", "model", "name", "origin",
        "paths", "probe", "role", "target", "type",
    }
)  # fmt: skip
_SMALLEST_BOUND = 200

# Possessive, so that no text can make them go back and try again.
_PIECE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)
_COLON = re.compile(rb"[ \t\r\n]*+:")
_OWN_NAME = re.compile(rb'"[a-z_]{1,30}"')
_TIME_OR_DIGEST = re.compile(
    rb'"?(?:sha256:[0-9a-f]{64}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,16}(?:Z|[+-][0-9:]{4,6}))"?'
)


class Redacted(NamedTuple):
    """Evidence with markers: its bytes, how many markers of each kind were put in, and what was seen."""

    data: bytes
    counts: Counter[str]
    secrets: list[Secret]

    @property
    def is_changed(self) -> bool:
        return bool(self.counts)


Numbering = Callable[[Secret], int]
"""Returns the number of a secret among those of its kind."""


def redacted(
    data: bytes,
    kind: ItemKind,
    *,
    held: "Held | None" = None,
    number: Numbering | None = None,
    is_sound: bool = True,
) -> Redacted:
    """Return an item without the secrets that its text shows, and without those in `held`.

    Equal bytes, `held` and numbers give equal bytes. Redacting again changes nothing. Without
    `number`, secrets are numbered as they come, past the numbers that the item has already. Without
    `is_sound` no field names anything: of what was refused, each can say whatever it likes.
    """
    if not is_looked_at(data, kind):
        return Redacted(data, Counter(), [])
    plain = plain_text(data)
    found = [s for s in secrets_in(plain) if not _MARKER_BYTES.fullmatch(s.value.encode())]
    if held is not None:
        # First: what is known by its value is named by where it comes from.
        found = [*held.within(plain), *found]
    if not found:
        return Redacted(data, Counter(), [])
    markers = _markers_of(found, number or _numbers_past(data))
    kept = _NAMING_FIELDS.get(kind, _NONE) if is_sound else _NONE
    if kind in _LINES:
        lines = [_cleaned_document(line, kept, markers) for line in data.split(b"\n")]
        return Redacted(b"\n".join(lines), markers.counts, found)
    if kind in _DOCUMENTS:
        return Redacted(_cleaned_document(data, kept, markers), markers.counts, found)
    return Redacted(markers.cleaned(data), markers.counts, found)


def is_looked_at(data: bytes, kind: ItemKind) -> bool:
    """Return whether an item is looked through: attachments that are no text are not."""
    return not (kind is ItemKind.FILE and is_binary(data))


def redacted_text(text: str) -> str:
    """Return a sentence, a name or a path without the secrets that it shows."""
    data = text.encode(errors="surrogatepass")
    return redacted(data, ItemKind.LOG).data.decode(errors="surrogatepass")


class Held:
    """Secrets that are known by their value, in the forms in which they may turn up."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        # The longest first: one that holds another is replaced as a whole.
        self._secrets = sorted(set(secrets), key=lambda s: (-len(s.value), s))

    def with_one_more(self, secret: Secret) -> "Held":
        return Held([*self._secrets, secret])

    def within(self, plain: bytes) -> list[Secret]:
        """Return those of which a text holds some form."""
        squeezed = plain.translate(None, _SPACE)
        return [s for s in self._secrets if _forms_of(s).are_in(plain, squeezed)]


class _Forms(NamedTuple):
    """The bytes by which a secret is recognized."""

    written: tuple[bytes, ...]
    squeezed: bytes | None
    """Without white space: for one that is split over lines. None where it is too short."""

    def are_in(self, text: bytes, squeezed: bytes) -> bool:
        if any(form in text for form in self.written):
            return True
        return self.squeezed is not None and self.squeezed in squeezed

    def spans(self, text: bytes, squeezed: "_Squeezed") -> Iterator[tuple[int, int]]:
        for form in self.written:
            yield from _places(text, form)
        if self.squeezed is not None:
            yield from squeezed.spans(self.squeezed)


@lru_cache(maxsize=4096)
def _forms_of(secret: Secret) -> _Forms:
    value = secret.value
    escaped = json.dumps(value)[1:-1]
    texts = [value, escaped, json.dumps(escaped)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    texts += [quote(value, safe=""), quote_plus(value), quote(value)]
    raw = value.encode(errors="surrogatepass")
    forms = [text.encode(errors="surrogatepass") for text in texts]
    # A secret that holds escapes itself, in a text without escapes.
    forms += [plain_text(form) for form in forms]
    if secret.is_held:
        forms += _base64_forms(raw)
    bare = raw.translate(None, _SPACE)
    return _Forms(tuple(dict.fromkeys(forms)), bare if len(bare) >= _SPLIT_FROM else None)


def _base64_forms(value: bytes) -> list[bytes]:
    """Return what is the same of a value's base64 wherever in a longer text it stands.

    The first and the last digits depend on the neighbours, and so are left out.
    """
    forms = []
    for shift in range(3):
        for encode in (b64encode, urlsafe_b64encode):
            digits = encode(bytes(shift) + value)
            known = (shift + len(value)) * 8 // 6
            forms.append(digits[-(-shift * 8 // 6) : known])
    return [form for form in forms if len(form) >= _SPLIT_FROM // 2]


class _Squeezed:
    """A text without its white space, and the way back to the places in the text."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._bare = text.translate(None, _SPACE)

    @cached_property
    def _bare_before(self) -> list[int]:
        """How many bytes of the bare text come before each block; one number a byte were gigabytes."""
        blocks = range(0, len(self._text), _BLOCK_BYTES)
        sizes = (len(self._text[at : at + _BLOCK_BYTES].translate(None, _SPACE)) for at in blocks)
        return list(accumulate(sizes, initial=0))

    def _place(self, bare_place: int) -> int:
        """Return where in the text the byte stands that the bare text has at a place."""
        block = bisect_right(self._bare_before, bare_place) - 1
        left = bare_place - self._bare_before[block]
        begin = block * _BLOCK_BYTES
        part = self._text[begin : begin + _BLOCK_BYTES]
        places = (place for place, byte in enumerate(part) if byte not in _SPACE)
        return begin + next(islice(places, left, None))

    def spans(self, form: bytes) -> Iterator[tuple[int, int]]:
        for start, end in _places(self._bare, form):
            yield self._place(start), self._place(end - 1) + 1

    def holds(self, forms: _Forms) -> bool:
        return forms.are_in(self._text, self._bare)


def _places(text: bytes, form: bytes) -> Iterator[tuple[int, int]]:
    start = text.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = text.find(form, start + len(form))


def _markers_of(found: Sequence[Secret], number: Numbering) -> "_Markers":
    unique = list(dict.fromkeys(found))
    return _Markers(unique, number) if len(unique) <= _MOST_SECRETS else _WholeMarkers([], number)


class _Markers:
    """The markers of one item, and how often each kind was put in."""

    def __init__(self, secrets: Sequence[Secret], number: Numbering) -> None:
        self._marks = [(_forms_of(s), s, marker(s.kind, number(s)).encode()) for s in secrets]
        self.counts: Counter[str] = Counter()

    def are_due(self, data: bytes) -> bool:
        if len(data) < self._shortest:
            return False
        plain = plain_text(data)
        if len(plain) > _SHORT_TEXT_BYTES:
            whole = _Squeezed(plain)
            return any(whole.holds(forms) for forms, _, _ in self._marks)
        # An item has one long text, or very many short ones: those are looked through in one go.
        if self._written.search(plain):
            return True
        return bool(self._bare and self._bare.search(plain.translate(None, _SPACE)))

    @cached_property
    def _shortest(self) -> int:
        lengths = [len(form) for forms, _, _ in self._marks for form in forms.written]
        lengths += [
            len(forms.squeezed) for forms, _, _ in self._marks if forms.squeezed is not None
        ]
        return min(lengths, default=0)

    @cached_property
    def _written(self) -> re.Pattern[bytes]:
        return _any_of(form for forms, _, _ in self._marks for form in forms.written)

    @cached_property
    def _bare(self) -> re.Pattern[bytes] | None:
        split = [forms.squeezed for forms, _, _ in self._marks if forms.squeezed is not None]
        return _any_of(split) if split else None

    def cleaned(self, text: bytes) -> bytes:
        """Return a text with markers; where escapes hide a secret, the text is written without them."""
        done = self._replaced(text)
        return self._replaced(plain_text(done)) if self.are_due(done) else done

    def _replaced(self, text: bytes) -> bytes:
        squeezed = _Squeezed(text)
        found = [
            (start, -end, place)
            for place, (forms, _, _) in enumerate(self._marks)
            for start, end in forms.spans(text, squeezed)
        ]
        pieces: list[bytes] = []
        done = 0
        for start, minus_end, place in sorted(found):
            if -minus_end <= done:
                continue
            if start >= done:
                _, secret, mark = self._marks[place]
                pieces += [text[done:start], mark]
                self.counts[secret.kind] += 1
            # One that overlaps the one before goes with it.
            done = -minus_end
        return b"".join([*pieces, text[done:]])


def _any_of(forms: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(re.escape, dict.fromkeys(forms))))


class _WholeMarkers(_Markers):
    """Replaces each text as a whole, except for short ones, which are words, for times and digests."""

    def are_due(self, data: bytes) -> bool:
        return (
            len(data) > _SPLIT_FROM
            and not _MARKER_BYTES.fullmatch(data.strip(b'"'))
            and not _TIME_OR_DIGEST.fullmatch(data)
        )

    def cleaned(self, text: bytes) -> bytes:
        self.counts[MANY] += 1
        # Each its own number: two names of an object are not to become one.
        return marker(MANY, self.counts[MANY]).encode()


def _cleaned_document(data: bytes, kept: frozenset[str], markers: _Markers) -> bytes:
    """Return a JSON document with markers in its strings; what is no JSON is cleaned as text."""
    if not markers.are_due(data):
        return data
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return markers.cleaned(data)
    pieces: list[bytes] = []
    done, depth, field, name = 0, 0, "", ""
    for found in _PIECE.finditer(data):
        token = found[0]
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
        else:
            is_name = _COLON.match(data, found.end()) is not None
            if is_name:
                name = str(json.loads(token))
                field = name if depth == 1 else field
            if field in kept or (is_name and _OWN_NAME.fullmatch(token)):
                continue
            is_bounded = is_name or name in _BOUNDED_FIELDS
            cleaned = _cleaned_string(token, markers, is_bounded=is_bounded)
            pieces += [data[done : found.start()], cleaned]
            done = found.end()
    return b"".join([*pieces, data[done:]])


def _cleaned_string(token: bytes, markers: _Markers, *, is_bounded: bool) -> bytes:
    if not markers.are_due(token):
        return token
    text = str(json.loads(token))
    raw = text.encode(errors="surrogatepass")
    cleaned = markers.cleaned(raw)
    if cleaned == raw:
        return token
    written = cleaned.decode(errors="surrogatepass")
    if is_bounded:
        written = written[: max(len(text), _SMALLEST_BOUND)]
    try:
        return json.dumps(written, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(written).encode()


def _numbers_past(data: bytes) -> Numbering:
    """Return a numbering that begins where the markers of an item end, whoever wrote them."""
    taken = {(found[1].decode(), int(found[2])) for found in _MARKER_BYTES.finditer(data)}
    newest: Counter[str] = Counter()

    def number(secret: Secret) -> int:
        newest[secret.kind] += 1
        while (secret.kind, newest[secret.kind]) in taken:
            newest[secret.kind] += 1
        return newest[secret.kind]

    return number


class Seen(NamedTuple):
    """An item that is looked at: what it is, its bytes, and its own name if it has one."""

    kind: ItemKind
    data: bytes
    name: str | None = None


def counts_of_each(items: Sequence[Seen]) -> list[Counter[str]]:
    """Return `secret_counts` of each item: most have none, which one look at all of them shows."""
    text = b"\n".join(piece for item in items for piece in _texts(item))
    if not any(secrets_in(plain_text(text))):
        return [Counter() for _ in items]
    return [secret_counts(item.data, item.kind, name=item.name) for item in items]


def secret_counts(data: bytes, kind: ItemKind, *, name: str | None = None) -> Counter[str]:
    """Return how many different secrets an item's text and its name show, by kind."""
    seen = {s for text in _texts(Seen(kind, data, name)) for s in secrets_in(plain_text(text))}
    return Counter(s.kind for s in seen if not MARKER.fullmatch(s.value))


def _texts(item: Seen) -> Iterator[bytes]:
    if is_looked_at(item.data, item.kind):
        yield item.data
    if item.name is not None:
        yield item.name.encode(errors="surrogatepass")
