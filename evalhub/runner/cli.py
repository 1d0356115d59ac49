"""`evalhub`: find the command, run it, and turn what went wrong into one sentence and a code.

Commands are imported when they are called: `evalhub --help` must not pay for an HTTP client.
"""

import os
import sys
import threading
import traceback
from argparse import REMAINDER, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from evalhub import __version__
from evalhub.runner.console import complain
from evalhub.runner.errors import Exit, RunnerError
from evalhub.runner.held_token import start_again_without_secrets, take_handed_secrets
from evalhub.runner.options import SentenceParser, shared_options

INTERRUPTED = 130


class Command(NamedTuple):
    """Where a command lives and what it is for."""

    module: str
    purpose: str


COMMANDS = {
    "init": Command("init", "begin: write the files, register suite, policy and a first plan"),
    "suite": Command("suite", "register the scenarios of a project"),
    "policy": Command("policy", "register or check what a project's gate demands"),
    "token": Command("token", "make, list or revoke tokens of a project"),
    "plan": Command("plan", "build, check, register, close, reopen or cancel a plan"),
    "lane": Command("lane", "run a lane of a plan and send its evidence"),
    "push": Command("push", "send a spool, or the results of another tool"),
    "verdict": Command("verdict", "say what a plan means; the exit code says it too"),
    "plans": Command("plans", "list plans"),
    "runs": Command("runs", "list the runs of a plan"),
    "transcript": Command("transcript", "show the transcript of a run"),
    "export": Command("export", "keep a plan as one archive, or its runs for training"),
    "import": Command("import_export", "show a plan of another evalhub, from its archive"),
    "baseline": Command("baseline", "adopt a plan as baseline, or list baselines"),
    "schedule": Command("schedule", "say when a nightly is due, so that an absent one is told of"),
    "storage": Command("storage", "show what a project has stored, say for how long it is kept"),
    "pin": Command("pin", "keep a plan's evidence whatever its age"),
    "purge": Command("purge", "remove bytes of a plan for good"),
    "pool": Command("pool", "create or change a judge budget"),
    "simulator": Command("simulator", "serve a simulated world"),
}


# A push runs beside lanes of the same machine.
_STARTS_AGENTS = frozenset({"lane", "push"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. No traceback reaches a user."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        # This process is a command's own: what a thread of it meets is told in a sentence, too.
        threading.excepthook = _thread_failed
    try:
        return _dispatched(arguments, is_own_process=argv is None)
    except RunnerError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        complain("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python must not complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.GOOD
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        complain(f"{place}{error.strerror or error}.")
        return _failed_at(error)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a person gets a sentence
        return _unforeseen(error)


def _thread_failed(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_value is not None:
        _unforeseen(failure.exc_value)


def _unforeseen(error: BaseException) -> int:
    reason = " ".join(str(error).split())
    complain(
        f"evalhub met something that it did not foresee ({type(error).__name__}: {reason}); "
        "run it again with EVALHUB_DEBUG=1 to see where, and report that."
    )
    return _failed_at(error)


def _failed_at(error: BaseException) -> int:
    if os.environ.get("EVALHUB_DEBUG") == "1":
        traceback.print_exception(error)
    return Exit.WRONG_INPUT


def _dispatched(arguments: list[str], *, is_own_process: bool) -> int:
    top = _top_parser()
    if not arguments:
        top.print_help(sys.stderr)
        return Exit.WRONG_INPUT
    given = top.parse_args(arguments)
    if given.command not in COMMANDS:
        top.error(f"there is no command {given.command!r}; choose from {', '.join(COMMANDS)}")
    if is_own_process:
        take_handed_secrets()
        if given.command in _STARTS_AGENTS:
            start_again_without_secrets()
    command = COMMANDS[given.command]
    module = import_module(f"evalhub.runner.commands.{command.module}")
    parser = SentenceParser(
        prog=f"evalhub {given.command}",
        description=f"{command.purpose[0].upper()}{command.purpose[1:]}.",
        parents=[shared_options()],
        allow_abbrev=False,
    )
    module.configure(parser)
    options = parser.parse_args(given.arguments, namespace=given)
    return int(options.handler(options))


def _top_parser() -> SentenceParser:
    width = max(len(name) for name in COMMANDS)
    listing = "\n".join(f"  {name:{width}}  {c.purpose}" for name, c in COMMANDS.items())
    top = SentenceParser(
        prog="evalhub",
        usage="evalhub [--url URL] [--token TOKEN] [--json] COMMAND …",
        description="The lane side of evalhub: plan, run, send evidence, read what it means.",
        epilog=f"commands:\n{listing}\n\n"
        "exit codes: 0 good, 1 the gate failed, 2 wrong usage or input, 3 action required,\n"
        "            4 the store could not be reached, 5 a guard refused to start",
        formatter_class=RawDescriptionHelpFormatter,
        parents=[shared_options()],
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"evalhub {__version__}")
    top.add_argument("command", metavar="COMMAND", help="one of those below")
    top.add_argument("arguments", nargs=REMAINDER, metavar="…", help="what the command takes")
    return top


if __name__ == "__main__":
    sys.exit(main())
