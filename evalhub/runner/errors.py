"""What a person is told when a command cannot go on, and the exit code that a script sees."""

from enum import IntEnum


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


class StoreUnreachableError(RunnerError):
    """The store did not answer, or answered that it cannot work now."""

    exit_code = Exit.STORE_UNREACHABLE


class GuardRefusedError(RunnerError):
    """A guard found that the run would be worthless, before anything scarce was used."""

    exit_code = Exit.GUARD_REFUSED
