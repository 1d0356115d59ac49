"""When something is due: the one place that reads cron expressions and time zones."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

LONGEST_EXPRESSION = 100
_FIELDS = 5
_FIELD_NAMES = "minute, hour, day of month, month, day of week"
_FARTHEST = timedelta(days=5 * 366)
# Of the files beside the zones: what a machine calls its own, what holds leap seconds, what is no place.
_NO_ZONES = frozenset({"Factory", "localtime", "posixrules"})
_NO_ZONES_BELOW = ("posix/", "right/")
# Hours of a month, or nights of almost three years: a rhythm shows itself in fewer.
_LOOKED_AT = 1_000


class TimetableError(ValueError):
    """A text that is no timetable: one sentence that says what was expected."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """The times at which something is due. All times that come out are in UTC.

    Clocks are changed as Debian's cron takes it: a time that a spring night leaves out is due when
    the clocks have been put forward, one that an autumn night has twice is due the first time.
    """

    expression: str
    zone: str
    _tzinfo: tzinfo = field(repr=False)

    def after(self, at: datetime) -> Iterator[datetime]:
        """Yield the due times after `at`, the next one first; ends where none comes for years."""
        last = at.astimezone(UTC)
        for due in CronSim(self.expression, at.astimezone(self._tzinfo)):
            # An hour that comes twice begins again: nothing is due before what was due already.
            if due.astimezone(UTC) > last:
                last = due.astimezone(UTC)
                yield last

    def next_after(self, at: datetime) -> datetime | None:
        """Return the next due time; None if none comes within five years."""
        due = next(self.after(at), None)
        return None if due is None or due - at > _FARTHEST else due

    def newest_until(self, at: datetime) -> datetime | None:
        """Return the newest due time that is not after `at`; None if there was none for years."""
        # From a day later, as clocks that are put back hide what was due shortly before.
        start = at.astimezone(self._tzinfo) + timedelta(days=1)
        earlier = (due.astimezone(UTC) for due in CronSim(self.expression, start, reverse=True))
        return next((due for due in earlier if due <= at), None)

    def shortest_gap(self, at: datetime) -> timedelta | None:
        """Return the shortest time between two due times in a row; None if there are not two."""
        soon = takewhile(lambda due: due - at <= _FARTHEST, islice(self.after(at), _LOOKED_AT))
        return min((later - earlier for earlier, later in pairwise(soon)), default=None)


def read_timetable(expression: str, zone: str) -> Timetable:
    """Return the timetable of a cron expression of five fields in an IANA time zone.

    Raises:
        TimetableError: if either cannot be read.
    """
    if len(expression) > LONGEST_EXPRESSION or not expression.isascii():
        raise TimetableError(
            f"The cron expression was {expression[:40]!r}; expected at most {LONGEST_EXPRESSION}"
            " characters of ASCII."
        )
    if len(expression.split()) != _FIELDS:
        raise TimetableError(
            f"The cron expression was {expression!r}; expected five fields ({_FIELD_NAMES}),"
            ' such as "0 3 * * *".'
        )
    try:
        CronSim(expression, datetime.min.replace(tzinfo=UTC))
    except CronSimError as error:
        place = str(error).removeprefix("Bad ")
        raise TimetableError(
            f"The cron expression was {expression!r}, which cannot be read at its {place};"
            f" expected {_FIELD_NAMES}."
        ) from None
    return Timetable(expression, zone, _zone(zone))


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        # There where a machine has no time zones.
        return UTC
    try:
        if name in _NO_ZONES or name.startswith(_NO_ZONES_BELOW):
            raise ZoneInfoNotFoundError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise TimetableError(
            f"The time zone was {name[:64]!r}; expected a name of the IANA database, such as"
            " UTC or Europe/Berlin."
        ) from None
