"""What came of one try. `Refused` and `Uncertain` must never be confused: only one of them may have arrived."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Arrived:
    """The other side has confirmed it; `external_id` is its own name for it, if it gave one."""

    external_id: str = ""


@dataclass(frozen=True)
class Uncertain:
    """No answer that says whether it arrived."""

    detail: str


@dataclass(frozen=True)
class Refused:
    """Nothing arrived. `retry_at` if the other side said when to come back."""

    detail: str
    retry_at: datetime | None = None


Failed = Uncertain | Refused
Outcome = Arrived | Failed
