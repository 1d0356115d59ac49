"""What a person is told when a command cannot go on, and the exit code that a script sees."""

import errno
from enum import IntEnum

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the system says when a disk, or somebody's share of it, is full."""


class Exit(IntEnum):
    """The exit codes of every command (WIRE 5)."""

    GOOD = 0
    GATE_FAILED = 1
    """The gate failed; for a lane: it ended without all that the plan expects of it."""
    WRONG_INPUT = 2
    ACTION_REQUIRED = 3
    STORE_UNREACHABLE = 4
    GUARD_REFUSED = 5


class RunnerError(Exception):
    """Something that was foreseen: one sentence that says what it was and how to mend it."""

    exit_code: Exit = Exit.WRONG_INPUT


class InputError(RunnerError):
    """A flag, a file or a document is not what it should be."""


class DiskFullError(InputError):
    """There is no room where something is to be written; there may be some later."""


class StoreUnreachableError(RunnerError):
    """The store did not answer, or answered that it cannot work now: the same may succeed later.

    `code` is the store's own name for the reason, and `retry_after_seconds` when it asked to be asked
    again; empty and 0 where it said nothing.
    """

    exit_code = Exit.STORE_UNREACHABLE

    def __init__(self, sentence: str, *, code: str = "", retry_after_seconds: int = 0) -> None:
        super().__init__(sentence)
        self.code = code
        self.retry_after_seconds = retry_after_seconds


class GuardRefusedError(RunnerError):
    """A guard found that the run would be worthless, before anything scarce was used."""

    exit_code = Exit.GUARD_REFUSED
