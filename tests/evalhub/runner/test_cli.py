"""The command line as a process: sentences, exit codes, nothing imported in vain."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from evalhub.runner import cli
from evalhub.runner.cli import COMMANDS
from tests.evalhub.runner.documents import make_plan, make_policy, make_suite, written
from tests.evalhub.runner.loopback import LoopbackStore


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def evalhub(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    """Return a way to call a command in this process, without the environment of this machine."""
    for name in list(os.environ):
        if name.startswith(("EVALHUB_", "GITHUB_")):
            monkeypatch.delenv(name)

    def call(*arguments: str | Path) -> Done:
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


Evalhub = Callable[..., Done]


def test_help_imports_nothing_that_takes_time() -> None:
    program = (
        "import sys\n"
        "from evalhub.runner import cli\n"
        "try:\n    cli.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "slow = {'httpx', 'pydantic', 'yaml', 'rich', 'numpy', 'django', 'evalhub.protocol'}\n"
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stderr == "[]\n"
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(evalhub: Evalhub, name: str) -> None:
    done = evalhub(name, "--help")

    assert done.code == 0
    assert f"usage: evalhub {name}" in done.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["vredict"], "there is no command 'vredict'; choose from init, suite"),
        (["--nonsense"], "evalhub: "),
        (["plan"], "the following arguments are required: ACTION"),
        (["plan", "close"], "required: DIGEST"),
        (["plan", "register", "absent.json"], "absent.json cannot be read: No such file"),
        (["plans"], "EVALHUB_URL was absent; expected the address of the store"),
        (["plans", "--url", "ftp://x", "--token", "t"], "EVALHUB_URL was 'ftp://x'; expected"),
        (["plans", "--url", "http://127.0.0.1:1", "--limit", "x"], "invalid int value: 'x'"),
        (["push", "."], "holds no spool"),
        (["lane", "run", "--plan", "x", "--lane", "y"], "The agent's command was absent"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    evalhub: Evalhub, arguments: list[str], sentence: str
) -> None:
    done = evalhub(*arguments)

    assert done.code == 2
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err


def test_no_command_shows_the_help_and_fails(evalhub: Evalhub) -> None:
    done = evalhub()

    assert done.code == 2
    assert "commands:" in done.err


def test_a_store_that_is_away_is_exit_code_4(evalhub: Evalhub, tmp_path: Path) -> None:
    plan = written(tmp_path, make_plan().document)

    for command in (["plans"], ["plan", "register", plan], ["verdict", "a" * 64]):
        done = evalhub("--url", "http://127.0.0.1:1", "--token", "t", *command)

        assert done.code == 4
        assert done.err.count("\n") == 1
        assert "did not answer" in done.err


@pytest.mark.parametrize(
    "command",
    [["verdict"], ["runs"], ["plan", "close"], ["baseline", "adopt", "--reason", "good"]],
)
@pytest.mark.parametrize("digest", ["sha256:x", "a" * 63, "plan.json"])
def test_a_digest_that_is_none_is_refused_before_the_store_is_asked(
    evalhub: Evalhub, command: list[str], digest: str
) -> None:
    done = evalhub("--url", "http://127.0.0.1:1", "--token", "t", *command, digest)

    assert done.code == 2
    assert done.err.count("\n") == 1
    assert f"digest was '{digest}'; expected sha256: and 64 hexadecimal digits" in done.err


@pytest.mark.parametrize(
    ("closed", "sentence"),
    [
        ({"state": "running", "concluded_at": None}, "is closed; see `evalhub verdict sha256:"),
        (
            {"state": "concluded", "concluded_at": "2026-11-29T12:00:00Z"},
            "was decided already, at 2026-11-29T12:00:00Z; see",
        ),
    ],
)
def test_close_says_whether_the_plan_was_decided_already(
    evalhub: Evalhub, store: LoopbackStore, closed: dict[str, str | None], sentence: str
) -> None:
    store.closed = closed

    done = evalhub("--url", store.url, "--token", "t", "plan", "close", "a" * 64)

    assert done.code == 0
    assert sentence in done.out


def test_build_check_and_the_files_between_them(evalhub: Evalhub, tmp_path: Path) -> None:
    suite = written(tmp_path, make_suite().document, "suite.json")
    policy = written(tmp_path, make_policy().document, "policy.json")
    plan = tmp_path / "plan.json"
    flags = ["--project", "acme/x", "--suite", suite, "--policy", policy, "--tier", "live"]
    flags += ["--arm", "candidate=agent:luna:6", "--out", plan, "--head-sha", "a" * 40]

    built = evalhub("plan", "build", *flags, "--json")
    checked = evalhub("--json", "plan", "check", plan, "--policy", policy, "--suite", suite)
    other = evalhub(
        "plan", "check", plan, "--policy", written(tmp_path, make_policy(alpha=0.1).document, "p2")
    )

    assert built.code == 0
    assert json.loads(built.out)["digest"] == json.loads(checked.out)["digest"]
    assert json.loads(plan.read_text())["arms"][0]["model"] == "luna:6"
    assert "takes at least 5" in built.err
    assert "takes at least 5" in checked.err
    assert other.code == 2
    assert "/policy_digest was" in other.err


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--arm", "candidate"], "--arm was 'candidate'; expected NAME=SUBJECT:MODEL."),
        (["--arm", "candidate=x"], "--arm was 'candidate=x'; expected NAME=SUBJECT:MODEL."),
        (["--lanes", "0"], "--lanes was 0; expected at least 1."),
        (["--guard", "alive"], "--guard was 'alive'; expected NAME=EXPECTED:OBSERVED."),
        (["--condition", "other=slow"], "--condition names arm 'other'"),
        (["--simulator-name", "x"], "belong together"),
        (["--exclude", "vision"], "--exclude was 'vision'; expected CATEGORY=REASON."),
    ],
)
def test_build_names_the_flag_that_is_wrong(
    evalhub: Evalhub, tmp_path: Path, flags: list[str], sentence: str
) -> None:
    suite = written(tmp_path, make_suite().document, "suite.json")
    policy = written(tmp_path, make_policy().document, "policy.json")
    sound = ["--project", "acme/x", "--suite", suite, "--policy", policy, "--tier", "live"]
    sound += ["--arm", "candidate-b=agent:luna", "--out", tmp_path / "plan.json"]

    done = evalhub("plan", "build", *sound, *flags)

    assert done.code == 2
    assert sentence in done.err
    assert not (tmp_path / "plan.json").exists()


def test_build_names_everything_that_is_absent_at_once(evalhub: Evalhub, tmp_path: Path) -> None:
    suite, stages = tmp_path / "no-suite.json", tmp_path / "no-stages.json"

    done = evalhub("plan", "build", "--suite", suite, "--stages", stages, "--lane-map", tmp_path)

    lines = done.err.splitlines()
    assert done.code == 2
    assert lines[:4] == [
        "--project was absent; expected OWNER/NAME.",
        "--out was absent; expected where the plan is to be written.",
        "--policy was absent; expected the policy's file.",
        "--arm was absent; expected at least one --arm NAME=SUBJECT:MODEL.",
    ]
    assert lines[4].startswith("--tier was absent; expected one of llm_emulated, ")
    assert "at least the policy's environment.minimum_tier" in lines[4]
    assert f"The suite {suite} cannot be read: No such file" in lines[5]
    assert f"The lane map {tmp_path} cannot be read: Is a directory" in lines[6]
    assert f"The stages {stages} cannot be read: No such file" in lines[7]
    assert len(lines) == 8


def test_build_from_results_names_every_file_that_is_absent(
    evalhub: Evalhub, tmp_path: Path
) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]

    done = evalhub("plan", "build", "--project", "acme/x", "--out", "x", "--from-results", *files)

    assert done.code == 2
    lines = done.err.splitlines()
    assert lines[0].startswith("--policy was absent; expected the policy's file, or --policy-out")
    assert [line.split(" cannot")[0] for line in lines[1:]] == [f"The results {f}" for f in files]


def test_build_explains_each_tier(evalhub: Evalhub) -> None:
    shown = " ".join(evalhub("plan", "build", "--help").out.split())

    assert "llm_emulated (a model plays the services)" in shown
    assert "live (the services that customers use)" in shown


def test_unforeseen_errors_are_a_sentence_and_a_traceback_only_on_request() -> None:
    program = (
        "import sys\n"
        "from evalhub.runner import cli\n"
        "cli.COMMANDS['broken'] = cli.Command('broken', 'is not there')\n"
        "sys.exit(cli.main(['broken']))\n"
    )

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    quiet, loud = run(EVALHUB_DEBUG="0"), run(EVALHUB_DEBUG="1")

    assert (quiet.returncode, loud.returncode) == (2, 2)
    assert quiet.stderr.count("\n") == 1
    assert "did not foresee (ModuleNotFoundError" in quiet.stderr
    assert "Traceback" in loud.stderr


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = f"{sys.executable} -m evalhub.runner.cli --help | head -c 5"

    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
