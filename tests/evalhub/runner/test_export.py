"""`evalhub export` against the real store: the file is whole, checked, and appears complete or never."""

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from evalhub.protocol.canonical import bytes_digest, canonical_bytes
from evalhub.protocol.export import EXPLANATION, ArchiveStream, ExportManifest
from evalhub.runner import cli
from evalhub.runner.errors import Exit
from evidence.store.models import Segment
from evidence.store.storage import object_store
from lanes.plans.models import Plan
from tests.evalhub.runner.test_client import http_answer, raw_server
from tests.evidence.factories import make_run
from tests.evidence.store.importing import forget_everything
from tests.lanes.factories import NOW, make_attempt, make_plan, make_project, make_token

DIGEST = "sha256:" + "ab" * 32


@pytest.fixture
def plan(
    live_server: LiveServer, transactional_db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Plan:
    """Return a plan with one run on a live server, which the environment names."""
    plan = make_plan(make_project())
    make_run(make_attempt(plan))
    (machine := tmp_path / "machine").mkdir()
    monkeypatch.chdir(machine)
    monkeypatch.setenv("EVALHUB_URL", live_server.url)
    monkeypatch.setenv("EVALHUB_TOKEN", make_token(plan.project).secret)
    return plan


@pytest.mark.slow
def test_archive_is_written_and_checked(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["export", plan.digest, "-o", "plan.zip", "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["faults"]) == (Exit.GOOD, [])
    assert answer["size_bytes"] == Path("plan.zip").stat().st_size
    with zipfile.ZipFile("plan.zip") as archive:
        assert archive.testzip() is None
        assert bytes_digest(archive.read("plan.json")) == plan.digest
        # Readable without evalhub: README says where a transcript lies, and there it is.
        segments = [name for name in archive.namelist() if name.endswith(".zip")]
        inner = [zipfile.ZipFile(io.BytesIO(archive.read(name))) for name in segments]
    turns = inner[1].read("runs/order-lookup/candidate/1/transcript.1.ndjson").splitlines()
    assert [json.loads(turn)["turn"] for turn in turns] == [1, 2, 3]
    assert [path.name for path in Path().iterdir()] == ["plan.zip"]


@pytest.mark.slow
def test_trajectories_are_json_lines(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["export", plan.digest, "-o", "runs.jsonl", "--trajectories"])

    assert code == Exit.GOOD
    assert capsys.readouterr().out.startswith("runs.jsonl: 1 runs, ")
    (run,) = [json.loads(line) for line in Path("runs.jsonl").read_text().splitlines()]
    assert len(run["transcript"]) == 3


@pytest.mark.slow
def test_lines_that_were_cut_off_between_two_runs_are_no_whole_export(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some proxies end an answer that was broken off as if it had been whole."""
    monkeypatch.setenv("EVALHUB_TOKEN", "token")
    answer = http_answer("200 OK", b'{"run": 1}\n').replace(b"\r\n", b"\r\nEvalhub-Runs: 2\r\n", 1)
    with raw_server(answer) as url:
        monkeypatch.setenv("EVALHUB_URL", url)
        code = cli.main(["export", DIGEST, "-o", str(tmp_path / "runs"), "--trajectories"])

    assert code == Exit.STORE_UNREACHABLE
    assert "ended after 1 of 2 runs" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_archive_of_a_running_plan_says_so_and_is_imported_elsewhere(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["export", plan.digest, "-o", "plan.zip"]) == Exit.GOOD
    assert "The plan was running by then" in capsys.readouterr().err
    forget_everything()
    monkeypatch.setenv("EVALHUB_TOKEN", make_token(make_project("team/reader")).secret)
    command = ["import", "plan.zip", "--project", "team/reader"]

    first = cli.main(command)
    said = capsys.readouterr().out
    second = cli.main([*command, "--json"])
    answer = json.loads(capsys.readouterr().out)

    assert (first, second) == (Exit.GOOD, Exit.GOOD)
    assert f"of {plan.project.name} at http" in said
    assert "is imported: 2 segments, 1 runs." in said
    assert "was running: a later archive may tell more" in said
    assert (answer["new"], answer["foreign"], answer["project"]) == (False, True, "team/reader")
    Path("plan.zip").write_bytes(Path("plan.zip").read_bytes()[:-9])
    assert cli.main(command) == Exit.WRONG_INPUT
    assert "was cut short" in capsys.readouterr().err
    assert cli.main(["import", "absent.zip", "--project", "team/reader"]) == Exit.WRONG_INPUT


@pytest.mark.slow
def test_archive_is_checked_by_programs_that_are_not_evalhubs(plan: Plan) -> None:
    cli.main(["export", plan.digest, "-o", "plan.zip"])
    with zipfile.ZipFile("plan.zip") as archive:
        archive.extractall("unpacked")
    recipe = dedent(EXPLANATION.partition("own library:\n\n")[2].partition("\n\n")[0])

    checked = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"],
        cwd="unpacked",
        capture_output=True,
        text=True,
        check=False,
    )
    # What the README of the archive gives to a reader who has nothing but Python.
    read = subprocess.run(
        [sys.executable, "-I", "-c", recipe],
        cwd="unpacked",
        capture_output=True,
        text=True,
        check=True,
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert read.stdout == "order-lookup candidate 1 passed\n"


@pytest.mark.slow
def test_what_the_store_has_lost_is_told_and_kept_by_the_exit_code(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    object_store().delete(Segment.objects.get(seq=2).object_key)

    assert cli.main(["export", plan.digest, "-o", "plan.zip"]) == Exit.GATE_FAILED
    assert "is lost" in capsys.readouterr().err
    assert Path("plan.zip").exists()
    assert cli.main(["export", plan.digest, "-o", "r", "--trajectories"]) == Exit.GATE_FAILED


@pytest.mark.slow
def test_stranger_gets_nothing(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALHUB_TOKEN", make_token(make_project()).secret)

    assert cli.main(["export", plan.digest, "-o", "plan.zip"]) == Exit.WRONG_INPUT
    assert list(Path().iterdir()) == []


def test_file_that_is_there_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVALHUB_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("EVALHUB_TOKEN", "token")
    (tmp_path / "kept").write_text("mine")

    assert cli.main(["export", DIGEST, "-o", str(tmp_path / "kept")]) == Exit.WRONG_INPUT
    assert (tmp_path / "kept").read_text() == "mine"
    assert "is there already" in capsys.readouterr().err
    assert cli.main(["export", DIGEST, "-o", str(tmp_path / "no/x")]) == Exit.WRONG_INPUT


def made_archive(*, files: dict[str, bytes], told: dict[str, Any] | None = None) -> bytes:
    """Return an archive with these files and a manifest, of which `told` replaces some."""
    stream = ArchiveStream()
    pieces: list[bytes] = []
    for name, data in files.items():
        pieces += stream.add(name, [data])
    manifest = ExportManifest(
        plan=DIGEST,
        project="acme/agent",
        exported_at=NOW,
        engine_version="evalhub/1",
        files=stream.files,
        faults=[],
    ).model_dump(mode="json", by_alias=True)
    if told != {}:
        pieces += stream.add("manifest.json", [canonical_bytes({**manifest, **(told or {})})])
    return b"".join([*pieces, *stream.end()])


def file(path: str, data: bytes) -> dict[str, Any]:
    return {"path": path, "sha256": bytes_digest(data), "size_bytes": len(data)}


WHOLE = made_archive(files={"plan.json": b"{}"})
BROKEN: Iterable[tuple[str, bytes, str]] = [
    ("cut short", WHOLE[:-10], "no whole export"),
    ("no archive", b"{}", "no whole export"),
    ("no manifest", made_archive(files={"plan.json": b"{}"}, told={}), "no manifest.json"),
    ("other plan", made_archive(files={}, told={"plan": "sha256:" + "0" * 64}), "it is plan"),
    ("other bytes", made_archive(files={"a": b"1"}, told={"files": [file("a", b"2")]}), "a is not"),
    ("absent file", made_archive(files={}, told={"files": [file("a", b"2")]}), "it has no a"),
    ("other schema", made_archive(files={}, told={"schema": "evalhub.export/9"}), "/schema"),
    ("flipped bit", WHOLE.replace(b"{}", b"[]", 1), "no whole export"),
]


@pytest.mark.parametrize(
    ("data", "said"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_what_is_no_whole_export_leaves_no_file(
    data: bytes,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("EVALHUB_TOKEN", "token")
    with raw_server(http_answer("200 OK", data)) as url:
        monkeypatch.setenv("EVALHUB_URL", url)
        code = cli.main(["export", DIGEST, "-o", str(tmp_path / "plan.zip")])

    assert code == Exit.STORE_UNREACHABLE
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_answer_that_breaks_off_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    monkeypatch.setenv("EVALHUB_TOKEN", "token")
    with raw_server(head + b"5\r\nhello\r\n") as url:
        monkeypatch.setenv("EVALHUB_URL", url)
        code = cli.main(["export", DIGEST, "-o", str(tmp_path / "runs"), "--trajectories"])

    assert code == Exit.STORE_UNREACHABLE
    assert "broke off after 5 bytes" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_whole_export_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALHUB_TOKEN", "token")
    with raw_server(http_answer("200 OK", WHOLE)) as url:
        monkeypatch.setenv("EVALHUB_URL", url)
        assert cli.main(["export", DIGEST, "-o", str(tmp_path / "plan.zip")]) == Exit.GOOD

    assert (tmp_path / "plan.zip").read_bytes() == WHOLE
