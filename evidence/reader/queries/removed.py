"""What is not there any more, and why: said where it would be shown."""

from collections.abc import Callable
from typing import TypeVar

from evidence.store import queries as store

_Value = TypeVar("_Value")


class Removed:
    """Collects why evidence is gone while the rest of a page is made."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def unless(self, read: Callable[[], _Value], otherwise: _Value) -> _Value:
        """Return what `read` gives; `otherwise` if that was removed, which is noted."""
        try:
            return read()
        except store.EvidenceRemovedError as error:
            if error.detail not in self.sentences:
                self.sentences.append(error.detail)
            return otherwise
