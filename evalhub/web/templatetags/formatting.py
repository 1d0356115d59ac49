"""How values are written on pages. No data is a dash, never 0."""

import json
import math
import re
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from evalhub.protocol.markers import MARKER

register = template.Library()

NO_DATA = "–"
_MINUS = "−"
# Codes whose own words do not tell the cause.
_CAUSES = {"SUITE_MISMATCH": "too few scenarios in common"}
# An agent can write as many as it likes; a page takes no more elements for them.
_MOST_MARKS = 1_000
_MARK = '<mark class="redacted">{}</mark>'


@register.filter
def percent(value: float | None) -> str:
    """Return a share (0 to 1) as a percentage.

    >>> percent(0.8213), percent(1), percent(None)
    ('82.1%', '100%', '–')
    """
    if value is None:
        return NO_DATA
    return f"{_plain(value * 100, digits=3)}%"


@register.filter
def number(value: float | None, digits: int = 4) -> str:
    """Return a number with as many significant digits as say something.

    >>> number(0.123456), number(1234567), number(-2.0), number(None)
    ('0.1235', '1,234,567', '−2', '–')
    """
    return NO_DATA if value is None else _plain(value, digits=digits)


@register.filter
def signed(value: float | None, digits: int = 3) -> str:
    """Return an effect with its sign.

    >>> signed(0.25), signed(-0.03126), signed(0), signed(None)
    ('+0.25', '−0.0313', '0', '–')
    """
    if value is None:
        return NO_DATA
    return ("+" if value > 0 else "") + _plain(value, digits=digits)


@register.filter
def interval(value: tuple[float | None, float | None] | None) -> str:
    """Return an interval in words; an end that is not bounded is said so.

    >>> interval((-0.21, 0.03)), interval(None), interval((None, 0.5))
    ('−0.21 to +0.03', '–', 'up to +0.5')
    """
    if value is None:
        return NO_DATA
    low, high = value
    if low is None or high is None:
        return (
            NO_DATA
            if low is high
            else f"from {signed(low)}"
            if high is None
            else f"up to {signed(high)}"
        )
    return f"{signed(low)} to {signed(high)}"


@register.filter
def microusd(value: int | None) -> str:
    """Return money in US dollars; small amounts keep the digits that they need.

    >>> microusd(20310), microusd(12_345_678), microusd(0), microusd(None)
    ('$0.0203', '$12.35', '$0.00', 'unknown')
    """
    if value is None:
        return "unknown"
    dollars = value / 1_000_000
    if value == 0 or abs(dollars) >= 1:
        return f"${dollars:,.2f}"
    return f"${_plain(dollars, digits=3)}"


@register.filter
def duration(milliseconds: int | None) -> str:
    """Return a duration in the unit that reads best.

    >>> duration(830), duration(12400), duration(200_000), duration(3_900_000), duration(None)
    ('830 ms', '12.4 s', '3 min 20 s', '1 h 5 min', '–')
    """
    if milliseconds is None:
        return NO_DATA
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


@register.filter
def short(value: str | None) -> str:
    """Return the first characters of a digest or commit.

    >>> short("sha256:0123456789abcdef"), short("0123456789abcdef0123"), short(None)
    ('0123456789ab', '0123456789ab', '–')
    """
    return value.removeprefix("sha256:")[:12] if value else NO_DATA


@register.filter
def words(value: str | None) -> str:
    """Return a code as words.

    >>> words("action_required"), words("NO_BASELINE")
    ('action required', 'no baseline')
    >>> words("SUITE_MISMATCH")
    'too few scenarios in common'
    """
    if value in _CAUSES:
        return _CAUSES[value]
    return value.replace("_", " ").lower() if value else NO_DATA


@register.filter
def as_json(value: object) -> str:
    """Return a JSON value of a document as JSON text.

    >>> as_json(["on", None, 1.5])
    '["on", null, 1.5]'
    """
    return json.dumps(value, ensure_ascii=False)


@register.filter
def moment(at: datetime | None) -> str | SafeString:
    """Return a time to the minute, with the exact one for machines and in the title."""
    if at is None:
        return NO_DATA
    utc = at.astimezone(UTC)
    exact = utc.isoformat(timespec="seconds").replace("+00:00", "Z")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', exact, exact, f"{utc:%Y-%m-%d %H:%M} UTC"
    )


class Mark(NamedTuple):
    """How a word of ours is shown: its tone, its icon and what it reads as."""

    tone: str
    icon: str
    word: str


_ICONS = {
    "check": '<path d="M3 8.5l3.2 3.2L13 4.8"/>',
    "cross": '<path d="M4 4l8 8M12 4l-8 8"/>',
    "down": '<path d="M8 3v10M3.8 8.8L8 13l4.2-4.2"/>',
    "up": '<path d="M8 13V3M3.8 7.2L8 3l4.2 4.2"/>',
    "question": '<path d="M5.4 5.6A2.7 2.7 0 0 1 8 3.4c1.6 0 2.7 1 2.7 2.4C10.7 7.7 8 7.9 8 9.8M8 12.6v.1"/>',
    "hand": '<path d="M8 2.5v6.5M8 12.4v.2"/>',
    "dash": '<path d="M3.5 8h9"/>',
    "clock": '<circle cx="8" cy="8" r="5.5"/><path d="M8 5v3.2l2.1 1.3"/>',
}
MARKS = {
    # verdicts
    "PASS": Mark("good", "check", "Pass"),
    "IMPROVEMENT": Mark("better", "up", "Improvement"),
    "REGRESSION": Mark("bad", "down", "Regression"),
    "TAIL_REGRESSION": Mark("bad", "down", "Tail regression"),
    "INCONCLUSIVE": Mark("warn", "question", "Inconclusive"),
    # conclusions
    "success": Mark("good", "check", "Success"),
    "failure": Mark("bad", "cross", "Failure"),
    "action_required": Mark("warn", "hand", "Action required"),
    "neutral": Mark("mute", "dash", "Neutral"),
    "cancelled": Mark("mute", "cross", "Cancelled"),
    # outcomes
    "passed": Mark("good", "check", "passed"),
    "failed": Mark("bad", "cross", "failed"),
    "agent_error": Mark("bad", "cross", "agent error"),
    "agent_timeout": Mark("bad", "clock", "agent timeout"),
    "skipped": Mark("mute", "dash", "skipped"),
    # states of plans, attempts, checks, guards
    "REGISTERED": Mark("mute", "clock", "Registered"),
    "RUNNING": Mark("busy", "clock", "Running"),
    "CONCLUDED": Mark("good", "check", "Concluded"),
    "OPEN": Mark("busy", "clock", "open"),
    "SILENT": Mark("warn", "question", "silent"),
    "SEALED": Mark("good", "check", "sealed"),
    "SUPERSEDED": Mark("mute", "dash", "superseded"),
    "CANCELLED": Mark("mute", "cross", "cancelled"),
    "queued": Mark("mute", "clock", "queued"),
    "in_progress": Mark("busy", "clock", "in progress"),
    "completed": Mark("good", "check", "completed"),
    "ok": Mark("good", "check", "ok"),
}


def mark_of(value: str | None) -> Mark:
    """Return how a verdict, conclusion, outcome or state is shown; unknown words as unmeasured."""
    if value is None:
        return Mark("mute", "dash", "no result")
    return MARKS.get(value) or Mark("warn", "question", words(value))


@register.filter
def badge(value: str | None) -> SafeString:
    """Return icon, word and color for a verdict, conclusion, outcome or state."""
    tone, icon, word = mark_of(value)
    return format_html(
        '<span class="badge" data-tone="{}">{} {}</span>', tone, icon_svg(icon), word
    )


@register.filter
def tone(value: str | None) -> str:
    """Return the tone of a verdict, conclusion, outcome or state, for `data-tone`."""
    return mark_of(value).tone


@register.simple_tag
def icon_svg(name: str) -> SafeString:
    """Return an icon that screen readers skip: the word beside it says the same."""
    return format_html(
        '<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="2"'
        ' stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">{}</svg>',
        mark_safe(_ICONS[name]),  # noqa: S308 - a constant of this module
    )


# Color codes are dropped: they only make text hard to read.
_COLOR_CODE = re.compile("\x1b\\[[0-9;]{0,40}m")
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff]"
)


@register.filter
def visible(text: str | None) -> str:
    r"""Return untrusted text with everything in it to be seen.

    Control characters and characters that reorder or hide text show as their names, so that what is
    read is what was written.

    >>> visible("\x1b[31mred\x1b[0m \x07 \u202eexe.txt")
    'red ⟦U+0007⟧ ⟦U+202E⟧exe.txt'
    """
    if text is None:
        return ""
    unix = _COLOR_CODE.sub("", text).replace("\r\n", "\n")
    return _HIDDEN.sub(_shown, unix)


@register.filter
def marked(text: str | None) -> SafeString:
    """Return evidence as HTML in which the markers that stand for secrets are to be told from words.

    Whoever wrote a marker: it is a word about a secret, never the secret.

    >>> marked("key [redacted:aws:1] & <b>")
    'key <mark class="redacted">[redacted:aws:1]</mark> &amp; &lt;b&gt;'
    """
    pieces: list[str] = []
    rest = 0
    for found in islice(MARKER.finditer(text or ""), _MOST_MARKS):
        pieces += [escape((text or "")[rest : found.start()]), _MARK.format(found[0])]
        rest = found.end()
    # What is put together here was escaped, or is a marker: letters, digits and dashes.
    return mark_safe("".join([*pieces, escape((text or "")[rest:])]))  # noqa: S308


def _shown(match: re.Match[str]) -> str:
    return f"⟦U+{ord(match[0]):04X}⟧"


def _plain(value: float, *, digits: int) -> str:
    if not math.isfinite(value):
        return NO_DATA
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    text = f"{abs(value):,.{min(max(digits - 1 - magnitude, 0), 12)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return (_MINUS if value < 0 and text != "0" else "") + text
