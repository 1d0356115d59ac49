"""`manage.py demo`: the main job of evalhub on this machine, from a plan to a check."""

import json
import logging
import signal
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from rich.console import Console

from evalhub.demo import show, story
from evalhub.demo.programs import Client, DemoError, Programs, Running, quiet_environment
from evalhub.demo.story import PROJECT, GitHub, Told

_READY_SECONDS = 120
_STANDIN_SECONDS = 20


class _Kept(NamedTuple):
    """What a data directory keeps of the demos before: the project's token and how many ran."""

    token: str | None
    runs: int


class _Stage(NamedTuple):
    """Everything that runs: the server, the stand-in, and the client with its token."""

    up: Running
    client: Client
    github: GitHub


class Command(BaseCommand):
    """Run the demo, then go on serving its pages until Ctrl-C."""

    help = "Run the main job on this machine: two plans, four lanes each, verdicts and checks."
    # They load every page, which takes longer than all else here; CI has run them.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=_port, default=8123)
        parser.add_argument("--data", type=Path, default=settings.BASE_DIR / "data" / "demo")
        parser.add_argument(
            "--once", action="store_true", help="write demo.json into the data directory and end"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        # Its line per request would run through the progress bars.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        data: Path = options["data"].absolute()
        folder = data / "demo"
        folder.mkdir(parents=True, exist_ok=True)
        # The sign-in link and the project's token stand in files in here.
        folder.chmod(0o700)
        programs = Programs(settings.BASE_DIR, folder, quiet_environment(data))
        with _stop_signals():
            try:
                self._tell(programs, data, port=options["port"], once=options["once"])
            except DemoError as error:
                raise CommandError(str(error)) from error
            except KeyboardInterrupt:
                self.console.print("Stopping.")
            finally:
                programs.stop()

    def _tell(self, programs: Programs, data: Path, *, port: int, once: bool) -> None:
        kept = _kept(data)
        stage = self._set_stage(programs, data, kept, port=port)
        stage.client.ask("suite", "put", str(story.SUITE), "--project", PROJECT)
        stage.client.ask("policy", "put", str(story.POLICY), "--project", PROJECT)
        guards = story.observed_guards(programs, at=timezone.now())
        told: list[Told] = []
        for chapter in story.chapters(kept.runs + 1):
            worse = f", worse in {chapter.defect}" if chapter.defect else ""
            self.console.print(f"\nThe {chapter.name}, commit {chapter.commit[:12]}{worse}:")
            told.append(
                story.told_chapter(
                    stage.client,
                    stage.github,
                    chapter,
                    folder=programs.logs,
                    guards=guards,
                    watch=lambda chapter, lanes: show.watch_lanes(self.console, chapter, lanes),
                )
            )
            self._show_chapter(told[-1])
            if chapter.name == "baseline":
                reason = "The first plan of the demo: looked at, and taken as what is normal."
                stage.client.ask("baseline", "adopt", told[-1].digest, "--reason", reason)
                self.console.print("  It was adopted as the baseline.")
        self._show_end(stage, data, told[-1])
        if once:
            (data / "demo.json").write_text(json.dumps(story.summary(told), indent=2) + "\n")
            self.console.print(f"All of this is in {data / 'demo.json'}.")
            again = f"make up PORT={port} DATA={data}"
            self.console.print(
                f"The server ends now. To look at the pages: {again}", soft_wrap=True
            )
            return
        self.console.print("The server goes on running; Ctrl-C stops everything.")
        code = stage.up.process.wait()
        raise DemoError(f"The server ended with code {code}: {stage.up.last_words()}")

    def _set_stage(self, programs: Programs, data: Path, kept: _Kept, *, port: int) -> _Stage:
        self.console.print("Starting evalhub and a stand-in for GitHub on this machine.")
        github = _started_standin(programs, data)
        up = programs.start(
            "up",
            [sys.executable, "manage.py", "up", "--port", str(port), "--data", str(data)],
            EVALHUB_GITHUB_API_URL=github.url,
            EVALHUB_GITHUB_TOKEN=github.token,
        )
        url = programs.wait_for(
            up,
            lambda: up.said_line("evalhub is ready at "),
            seconds=_READY_SECONDS,
            what="the server was ready",
        )
        token = kept.token or _created_project(programs)
        # At once: a demo that is interrupted must not lose the only copy of the token.
        _keep(data, _Kept(token, kept.runs + 1))
        return _Stage(up, Client(programs, url, token), github)

    def _show_chapter(self, told: Told) -> None:
        self.console.print(f"  {show.lanes_line(told)}")
        conclusion = told.conclusion["conclusion"]
        self.console.print(f"  Conclusion: {conclusion}. {told.conclusion['title']}")
        self.console.print(
            f"  Check at the stand-in for GitHub: {told.check['name']} is {told.check['conclusion']}."
        )

    def _show_end(self, stage: _Stage, data: Path, candidate: Told) -> None:
        self.console.print()
        self.console.print(show.verdict_table(candidate))
        sign_in = stage.up.said_line("Sign in once with ")
        self.console.print(f"Dashboard: {stage.client.url}")
        self.console.print(f"Sign in, once: {sign_in or 'no link; see manage.py sign_in_link'}")
        self.console.print(f"The candidate's plan: {candidate.url}")
        self.console.print(f"Data: {data}; requests to the stand-in: {data / 'github.ndjson'}")


def _started_standin(programs: Programs, data: Path) -> GitHub:
    standin = programs.start(
        "github",
        [
            *(sys.executable, "-m", "evalhub.demo.github_standin"),
            *("--log", str(data / "github.ndjson")),
        ],
    )
    line = programs.wait_for(
        standin,
        lambda: standin.said_line(""),
        seconds=_STANDIN_SECONDS,
        what="the stand-in for GitHub was ready",
    )
    ready = json.loads(line)
    return GitHub(ready["url"], ready["token"])


def _created_project(programs: Programs) -> str:
    flags = ["--repository-id", str(story.REPOSITORY_ID), "--default-branch", "main"]
    code, answer = programs.finished(
        "create-project",
        [
            *(sys.executable, "manage.py", "create_project", PROJECT),
            *(*flags, "--checks-for-unverified", "--json"),
        ],
    )
    # The answer holds a token: it does not stay among the logs.
    (programs.logs / "create-project.out").unlink()
    if code != 0:
        complaint = (programs.logs / "create-project.err").read_text().strip()
        raise DemoError(f"The project could not be made: {complaint}")
    token: str = json.loads(answer)["token"]
    return token


def _kept(data: Path) -> _Kept:
    path = data / "demo" / "kept.json"
    if not path.exists():
        return _Kept(None, 0)
    document = json.loads(path.read_text())
    return _Kept(document["token"], document["runs"])


def _keep(data: Path, kept: _Kept) -> None:
    path = data / "demo" / "kept.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(kept._asdict()))


@contextmanager
def _stop_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise ArgumentTypeError(f"{text!r} is no port; give a number from 1 to 65535")
    return int(text)
