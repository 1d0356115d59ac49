"""What a lane does about secrets before anything goes into a segment."""

import json
import zipfile
from pathlib import Path

import pytest

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.faults import parse_document
from evalhub.protocol.records import Redactions
from evalhub.protocol.secrets import Secret
from evalhub.runner import clock
from evalhub.runner.agent_files import AgentFile
from evalhub.runner.errors import InputError
from evalhub.runner.members import LeftFile, Member
from evalhub.runner.redaction import LogLines, Redaction
from evalhub.runner.redaction_values import environment_secrets, looks_secret
from evalhub.runner.spool import Spool
from tests.evalhub.protocol.secret_samples import GITHUB_TOKEN, PRIVATE_KEY
from tests.evalhub.runner.lanes import make_lane, run
from tests.evalhub.runner.loopback import LoopbackStore
from tests.evalhub.runner.test_spool import RUN, make_spool

PASSWORD = "k33p-th1s-qu1et!"


def contents(spool: Spool) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for segment in spool.segments():
        with zipfile.ZipFile(segment.path) as archive:
            found |= {name: archive.read(name) for name in archive.namelist()[1:]}
    return found


def turns(*texts: str) -> bytes:
    lines = [
        {"turn": n, "role": "tool", "kind": "tool_result", "text": t}
        for n, t in enumerate(texts, 1)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYMENTS_PASSWORD", PASSWORD)


def test_environment_secrets_are_what_looks_secret_under_a_secret_name() -> None:
    environment = {
        "STRIPE_API_KEY": "abc123DEF456",
        "DATABASE_URL": "postgres://app:s3cr3t-Word@db/app",
        "SOMETHING": GITHUB_TOKEN,
        "EVALHUB_TOKEN": "a-token-of-no-known-shape",
        # Not these: short, words, places, names.
        "A_KEY": "1",
        "B_TOKEN": "true",
        "C_SECRET": "test",
        "D_PASSWORD": "postgres",
        "SSH_AUTH_SOCK": "/var/ssh-aB3dE6/agent.42",
        "TOKEN_FILE": "/run/secrets/t0ken-File",
        "PIN_KEY": "1234567890",
        "MONKEY_ISLAND": "guybrush-1990",
        "PATH": "/usr/bin:/bin",
        "GITHUB_SHA": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    }

    found = environment_secrets(environment)

    assert {(s.kind, s.value) for s in found} == {
        ("env", "abc123DEF456"),
        ("env", "s3cr3t-Word"),
        ("env", GITHUB_TOKEN),
        ("lane-token", "a-token-of-no-known-shape"),
    }


@pytest.mark.parametrize("value", ["", "1", "true", "test", "password", "12345678901234567890"])
def test_looks_secret_takes_no_words_and_numbers(value: str) -> None:
    assert not looks_secret(value)


def test_nothing_goes_into_a_segment_with_a_secret(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s")
    notes = tmp_path / "notes.txt"
    notes.write_text(f"the password is {PASSWORD}\n")
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\x00" + PASSWORD.encode())
    result = {"outcome": "failed", "error": {"origin": "a", "type": "T", "message": PASSWORD}}

    spool.cut("record", [Member(f"{RUN}/result.json", json.dumps(result).encode())], at=clock.now())
    spool.cut(
        "bulk",
        [
            Member(f"{RUN}/transcript.1.ndjson", turns(f"{PASSWORD} {GITHUB_TOKEN}", PASSWORD)),
            LeftFile(f"{RUN}/files/notes%2Etxt", AgentFile(tmp_path, notes.name, 0)),
            LeftFile(f"{RUN}/files/picture%2Epng", AgentFile(tmp_path, picture.name, 0)),
            Member(f"{RUN}/files/{GITHUB_TOKEN}%2Etxt", b"an innocent text"),
        ],
        at=clock.now(),
    )
    spool.cut("record", [spool.redactions()], at=clock.now())

    found = contents(spool)
    for path, data in found.items():
        assert path.endswith("picture%2Epng") or PASSWORD.encode() not in data
        assert GITHUB_TOKEN not in path
        assert GITHUB_TOKEN.encode() not in data
    assert notes.read_text() == f"the password is {PASSWORD}\n"
    record = parse_document(Redactions, found["lane/redactions.json"])
    assert record.counts["env"] == 4
    assert sum(record.counts.values()) == 6
    assert record.not_looked_at == 1


def test_a_long_text_keeps_its_turn_when_its_digest_changes(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s")
    body = f"{'x' * 70_000} {PASSWORD}".encode()
    line = {"turn": 1, "role": "tool", "kind": "tool_result", "body": bytes_digest(body)}
    name = bytes_digest(body).removeprefix("sha256:")

    spool.cut(
        "bulk",
        [
            Member(f"{RUN}/transcript.1.ndjson", json.dumps(line).encode() + b"\n"),
            Member(f"{RUN}/files/body-{name}", body),
        ],
        at=clock.now(),
    )

    found = contents(spool)
    (path,) = [path for path in found if "/files/" in path]
    assert PASSWORD.encode() not in found[path]
    digest = json.loads(found[f"{RUN}/transcript.1.ndjson"])["body"]
    assert digest == bytes_digest(found[path])
    assert path == f"{RUN}/files/body-{digest.removeprefix('sha256:')}"


def test_items_that_are_cut_again_get_the_same_bytes(tmp_path: Path) -> None:
    """As after a crash between `redactions.json` and the segment, by another process."""
    members = [
        Member(f"{RUN}/transcript.1.ndjson", turns(GITHUB_TOKEN, PASSWORD)),
        Member("runs/other/candidate/1/transcript.1.ndjson", turns(PASSWORD)),
    ]
    held = environment_secrets({"THE_PASSWORD": PASSWORD})
    first = Redaction(tmp_path, held).cleaned(members)

    again = Redaction(tmp_path, held).cleaned(reversed(members))

    assert again == list(reversed(first))
    assert PASSWORD not in (tmp_path / "redactions.json").read_text()
    assert GITHUB_TOKEN not in (tmp_path / "redactions.json").read_text()


def test_a_secret_has_one_number_in_all_items_of_an_attempt(tmp_path: Path) -> None:
    redaction = Redaction(tmp_path, [])
    redaction.hold("the-first-value-1", kind="env")
    redaction.hold("the-second-value-2", kind="env")

    one, two = redaction.cleaned(
        [
            Member("lane/logs/a.1.log", b"the-second-value-2"),
            Member("lane/logs/b.1.log", b"the-first-value-1 the-second-value-2"),
        ]
    )

    assert one.content == b"[redacted:env:1]"
    assert two.content == b"[redacted:env:2] [redacted:env:1]"


def test_a_memory_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "redactions.json").write_text("{")

    with pytest.raises(InputError, match=r"redactions\.json cannot be read"):
        Redaction(tmp_path, [])


def test_log_lines_hold_a_private_key_back_until_it_is_whole(tmp_path: Path) -> None:
    lines = LogLines(Redaction(tmp_path, []))

    written = [
        clean
        for line in ["begin", *PRIVATE_KEY.splitlines(), "end"]
        for clean in lines.cleaned(line.encode())
    ]

    assert written == [b"begin", b"[redacted:private-key:1]", b"end"]


def test_log_lines_of_an_output_that_ends_within_a_key(tmp_path: Path) -> None:
    redaction = Redaction(tmp_path, [Secret("env", PASSWORD, is_held=True)])
    lines = LogLines(redaction)

    waiting = [lines.cleaned(line.encode()) for line in PRIVATE_KEY.splitlines()[:3]]

    assert waiting == [[], [], []]
    assert lines.rest() == [b"[redacted:private-key:1]"]
    assert lines.rest() == []
    assert lines.cleaned(b"my PRIVATE KEY") == []
    assert lines.cleaned(b"is safe, I hope.") == [b"my PRIVATE KEY", b"is safe, I hope."]


TELLTALE = """
import json, os, pathlib
folder = pathlib.Path(os.environ["EVALHUB_RUN_DIR"])
secret = os.environ["PAYMENTS_PASSWORD"]
print("it is", secret, flush=True)
print("and the simulator's", os.environ.get("EVALHUB_SIMULATOR_KEY", "none"), flush=True)
line = {"turn": 1, "role": "assistant", "kind": "message", "text": "it is " + secret}
(folder / "transcript.ndjson").write_text(json.dumps(line) + "\\n")
(folder / "result.json").write_text(json.dumps({"outcome": "passed", "extra": {"p": secret}}))
"""


@pytest.mark.slow
def test_a_lane_tells_nobody_its_secrets(store: LoopbackStore, tmp_path: Path) -> None:
    made = make_lane(tmp_path)
    Path(made.command[1]).write_text(TELLTALE)

    run(made, store.url, pass_env=["PAYMENTS_PASSWORD"])

    items = store.items()
    assert not [path for path, data in items.items() if PASSWORD.encode() in data]
    for file in (made.attempt / "logs").iterdir():
        assert PASSWORD not in file.read_text()
    for file in (made.attempt / "ended").rglob("*.json"):
        assert PASSWORD not in file.read_text()
    record = parse_document(Redactions, items["lane/redactions.json"])
    assert record.counts["env"] >= 3
