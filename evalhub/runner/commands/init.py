"""`evalhub init`: from nothing to a first registered plan, step by step, and again without harm."""

import argparse
import getpass
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from evalhub import __version__
from evalhub.protocol.canonical import canonical_bytes
from evalhub.protocol.identity import PublisherSettings
from evalhub.protocol.policy import Policy
from evalhub.protocol.suite import Suite
from evalhub.runner import clock, first_files
from evalhub.runner.client import Store
from evalhub.runner.console import complain, say, say_json
from evalhub.runner.documents import Loaded, read_document, write_document, write_whole
from evalhub.runner.errors import Exit, InputError
from evalhub.runner.first_files import Setting
from evalhub.runner.options import store_token, store_url, wants_json
from evalhub.runner.planning import ArmChoice, PlanRequest, build_plan
from evalhub.runner.refusals import StoreRefusedError

WORKFLOW = Path(".github/workflows/evalhub.yml")
_CI_TOKEN = "GitHub Actions"  # noqa: S105 - the name of a token
_GIT_SECONDS = 10
_UNQUOTABLE = re.compile(r"""["'`$\\\x00-\x1f\x7f]""")
_REMOTE = re.compile(r"[:/]([A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*?)(?:\.git)?/?$")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags; what is not given is asked for, where there is somebody to ask."""
    parser.add_argument("--project", metavar="OWNER/NAME", help="default: the git remote origin")
    parser.add_argument("--folder", type=Path, default=Path("evals"), metavar="DIR")
    parser.add_argument(
        "--scenarios", type=Path, metavar="DIR", help="files by category (default: DIR/scenarios)"
    )
    parser.add_argument("--suite", metavar="NAME", help="default: the name of the project")
    parser.add_argument("--subject", metavar="NAME", help="the agent (default: as the project)")
    parser.add_argument("--model", metavar="NAME", help="what the agent runs on")
    parser.add_argument(
        "--agent", metavar="COMMAND", help="runs one scenario (default: a skeleton)"
    )
    parser.add_argument("--epochs", type=int, default=3, metavar="N")
    parser.add_argument("--default-branch", default="main", metavar="BRANCH")
    parser.add_argument(
        "--auth",
        choices=("publisher", "token"),
        default="publisher",
        help="how CI speaks: by the identity of its jobs, or by a token in the repository's secrets",
    )
    parser.add_argument("--repository-id", type=int, metavar="N", help="GitHub's number for it")
    parser.add_argument("--owner-id", type=int, metavar="N", help="GitHub's number for its owner")
    parser.add_argument(
        "--install",
        default=f"evalhub=={__version__}",
        metavar="REQUIREMENT",
        help="what CI installs with pip",
    )
    parser.add_argument("--yes", action="store_true", help="ask nothing: flags and defaults")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace files that say something else"
    )
    parser.set_defaults(handler=init)


class _Done(NamedTuple):
    """What was done, what it cannot go on without, and what else is left for a person."""

    steps: list[str]
    needed: list[str]
    left: list[str]

    def say(self, sentence: str) -> None:
        self.steps.append(sentence)
        complain(sentence)


def init(options: argparse.Namespace) -> int:
    """Write the files, register suite, policy and a first plan; say what was done and what is next.

    Exit code 3 says that a person has to do something before it can go on.
    """
    asks = not options.yes and sys.stdin.isatty()
    setting = _setting(options, asks=asks)
    done = _Done([], [], [])
    with Store(setting.url, None) as store:
        store.schemas()
        done.say(f"{setting.url} answers.")
        writer = _Writer(overwrites=options.overwrite, asks=asks, done=done)
        _write_files(options, setting, writer)
        token = store_token(options) or (_asked_token(setting) if asks else None)
        if token is None:
            done.needed.append(_how_to_make_the_project(options, setting))
            return _ended(options, done)
        store.use_token(token)
        _register(store, options, setting, done)
    return _ended(options, done)


def _setting(options: argparse.Namespace, *, asks: bool) -> Setting:
    url = store_url(options) or _answer("Address of the evalhub server", asks=asks)
    project = options.project or _project_of_git()
    if options.project is None and asks:
        project = _answer("Project (OWNER/NAME)", project, asks=True)
    model = options.model or _answer("Model that the agent runs on", asks=asks)
    wanted = {"--url": url, "--project": project, "--model": model}
    absent = [flag for flag, value in wanted.items() if not value]
    if absent:
        raise InputError("\n".join(f"{flag} was absent; expected a value." for flag in absent))
    if project.count("/") != 1:
        raise InputError(f"--project was {project!r}; expected OWNER/NAME.")
    if options.folder.is_absolute() or ".." in options.folder.parts:
        raise InputError(f"--folder was {options.folder}; expected a folder of this repository.")
    _refuse_unquotable(options, url=url, project=project, model=model)
    name = re.sub(r"[^a-z0-9._+:-]", "-", project.split("/")[1].lower())
    folder = options.folder.as_posix()
    return Setting(
        url=url.rstrip("/"),
        project=project,
        folder=folder,
        suite=options.suite or name,
        subject=options.subject or name,
        model=model,
        agent=options.agent or f"python {folder}/run_scenario.py",
        epochs=options.epochs,
        default_branch=options.default_branch,
        has_publisher=options.auth == "publisher",
        requirement=options.install,
    )


def _refuse_unquotable(options: argparse.Namespace, **answers: str) -> None:
    """Refuse what would become other YAML or other shell in the workflow file."""
    flags = ("suite", "subject", "default_branch", "install")
    values = {**{flag: getattr(options, flag) or "" for flag in flags}, **answers}
    values["folder"] = options.folder.as_posix()
    for flag, value in values.items():
        if _UNQUOTABLE.search(value):
            raise InputError(
                f"--{flag.replace('_', '-')} was {value!r}; expected no quotes, $, backslashes or"
                " control characters: it goes into the workflow file."
            )
    agent = options.agent or ""
    if "${{" in agent or not agent.isprintable():
        raise InputError(f"--agent was {agent!r}; expected one line without ${{{{.")
    if options.epochs < 1:
        raise InputError(f"--epochs was {options.epochs}; expected at least 1.")


def _answer(question: str, default: str = "", *, asks: bool) -> str:
    if not asks:
        return default
    sys.stderr.write(f"{question}{f' [{default}]' if default else ''}: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip() or default


def _asked_token(setting: Setting) -> str | None:
    complain(
        f"A token with project:admin of {setting.project} lets this go on; whoever runs the server"
        " makes one with `manage.py create_project`, a maintainer on the project's page Tokens."
    )
    return getpass.getpass("Token (empty: later): ").strip() or None


def _project_of_git() -> str:
    found = _REMOTE.search(_git("remote", "get-url", "origin"))
    return found[1] if found else ""


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, timeout=_GIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _how_to_make_the_project(options: argparse.Namespace, setting: Setting) -> str:
    number = options.repository_id or "NUMBER"
    return (
        f"Have whoever runs {setting.url} make the project and give you its token:\n"
        f"    python manage.py create_project {setting.project} --repository-id {number}"
        f" --default-branch {setting.default_branch}\n"
        f"  (NUMBER: `gh api repos/{setting.project} --jq .id`), or a maintainer make one at"
        f" {setting.url}/projects/{setting.project}/tokens/\n"
        "  then put it into EVALHUB_TOKEN and run `evalhub init` again."
    )


# Files


class _Writer(NamedTuple):
    """Writes files that are absent, and over others only where somebody agrees."""

    overwrites: bool
    asks: bool
    done: _Done

    def write(self, path: Path, text: str) -> None:
        if path.exists():
            if path.read_bytes() == text.encode():
                self.done.say(f"{path} is as it should be.")
                return
            if not self._may_overwrite(path):
                self.done.say(f"{path} says something else and is kept (--overwrite replaces it).")
                return
        write_whole(path, text.encode())
        self.done.say(f"{path} is written.")

    def _may_overwrite(self, path: Path) -> bool:
        question = f"{path} says something else; overwrite it? (y/N)"
        return self.overwrites or _answer(question, asks=self.asks).lower() == "y"


def _write_files(options: argparse.Namespace, setting: Setting, writer: _Writer) -> None:
    folder, left = options.folder, writer.done.left
    root = options.scenarios or folder / "scenarios"
    if options.scenarios is None and not root.is_dir():
        writer.write(root / "general" / "hello.yaml", first_files.EXAMPLE_SCENARIO)
        left.append(f"Put your own scenarios into {root}, a folder for each category.")
    document = first_files.suite_document(setting.suite, root=root, top=Path.cwd())
    writer.write(folder / "suite.yaml", first_files.suite_text(document))
    writer.write(folder / "policy.yaml", first_files.POLICY)
    if options.agent is None:
        script = folder / "run_scenario.py"
        if not script.exists():
            # Once it calls an agent it is the project's own.
            writer.write(script, first_files.RUN_SCENARIO)
        if script.read_text() == first_files.RUN_SCENARIO:
            left.append(f"Have {script} call your agent.")
    writer.write(WORKFLOW, first_files.workflow_text(setting))


# The store


def _register(store: Store, options: argparse.Namespace, setting: Setting, done: _Done) -> None:
    folder = options.folder
    suite = read_document(folder / "suite.yaml", Suite, what="suite")
    policy = read_document(folder / "policy.yaml", Policy, what="policy")
    if _current(store, setting, suite=suite.model.name) == suite.digest:
        done.say(f"Suite {suite.model.name} is registered already.")
    else:
        store.put_suite(setting.project, canonical_bytes(suite.document))
        done.say(
            f"Suite {suite.model.name} ({len(suite.model.scenarios)} scenarios) is registered."
        )
    if _current(store, setting) == policy.digest:
        done.say("The policy is registered already.")
    else:
        store.put_policy(setting.project, canonical_bytes(policy.document))
        done.say(f"The policy is registered: {policy.digest}")
    _let_ci_speak(store, options, setting, done)
    _register_plan(store, setting, suite, policy, done=done)


def _current(store: Store, setting: Setting, *, suite: str | None = None) -> str | None:
    try:
        told = (
            store.policy(setting.project) if suite is None else store.suite(setting.project, suite)
        )
    except StoreRefusedError as error:
        if error.code != "not-found":
            raise
        return None
    return str(told["digest"])


def _let_ci_speak(store: Store, options: argparse.Namespace, setting: Setting, done: _Done) -> None:
    if not setting.has_publisher:
        _make_ci_token(store, setting, done)
        return
    repository = options.repository_id or _number("GITHUB_REPOSITORY_ID")
    owner = options.owner_id or _number("GITHUB_REPOSITORY_OWNER_ID")
    if repository is None or owner is None:
        done.needed.append(
            f"Trust the workflow, so that its jobs may speak for {setting.project}: run this again with"
            f" --repository-id and --owner-id (`gh api repos/{setting.project} --jq .id,.owner.id`)."
        )
        return
    wanted = PublisherSettings(
        repository_id=repository,
        repository_owner_id=owner,
        workflow=WORKFLOW.as_posix(),
        may_put_documents=True,
    )
    store.trust_publisher(setting.project, wanted.model_dump(mode="json"))
    done.say(f"Jobs of {WORKFLOW} in repository {repository} may speak for {setting.project}.")


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _make_ci_token(store: Store, setting: Setting, done: _Done) -> None:
    there = [
        row
        for row in store.tokens(setting.project)["tokens"]
        if row["name"] == _CI_TOKEN and row["state"] in {"good", "ending"}
    ]
    if there:
        done.say(f"CI has a token already: {there[0]['prefix']}…, until {there[0]['expires_at']}.")
        return
    scopes = ["plan:register", "lane:write", "read", "document:write"]
    made = store.make_token(setting.project, {"name": _CI_TOKEN, "scopes": scopes})
    done.say(f"A token for CI is made ({', '.join(scopes)}), until {made['expires_at']}.")
    done.left.append(
        "Put the token for CI into the repository's secrets; it is shown this once:\n"
        f"    gh secret set EVALHUB_TOKEN --repo {setting.project} --body {made['token']}"
    )


def _register_plan(
    store: Store, setting: Setting, suite: Loaded[Suite], policy: Loaded[Policy], *, done: _Done
) -> None:
    listed = store.plans({"project": setting.project, "suite": suite.model.name, "limit": 1})
    if listed["plans"]:
        done.say(f"The project has a plan of this suite: {listed['plans'][0]['digest']}")
        return
    head = _git("rev-parse", "HEAD") or None
    request = PlanRequest(
        project=setting.project,
        suite=suite,
        policy=policy,
        arms=[ArmChoice("candidate", setting.subject, setting.model)],
        # Without `head_sha`: a first look puts no check on anybody's commit.
        source={"event": "manual", "tested_sha": head},
        tier=policy.model.environment.minimum_tier,
        epochs=setting.epochs,
    )
    built = build_plan(request, at=clock.now())
    path = Path(setting.folder) / "first-plan.json"
    write_document(path, built.document)
    answer = store.register(canonical_bytes(built.document))
    done.say(
        f"The first plan is registered, {len(built.plan.lanes)} lanes: {answer.digest}\n  {answer.url}"
    )
    lane = built.plan.lanes[0].name
    done.left.append(
        f"See a lane work on this machine:\n    evalhub lane run --plan {path} --lane {lane}"
        f" -- {setting.agent}"
    )


def _ended(options: argparse.Namespace, done: _Done) -> int:
    left = [
        *done.needed,
        *done.left,
        f"Commit {options.folder} and {WORKFLOW}, and open a pull request.",
    ]
    code = Exit.ACTION_REQUIRED if done.needed else Exit.GOOD
    if wants_json(options):
        say_json({"done": done.steps, "next": left, "exit_code": code})
    else:
        say("\nNext:")
        for number, step in enumerate(left, start=1):
            say(f"{number}. {step}")
    return code
