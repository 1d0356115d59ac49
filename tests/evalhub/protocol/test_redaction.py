import json
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from random import Random
from re import _parser as re_parser  # type: ignore[attr-defined]  # the only one who knows
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.protocol import markers, redaction, secrets
from evalhub.protocol.faults import parse_document
from evalhub.protocol.markers import MARKER
from evalhub.protocol.paths import ItemKind
from evalhub.protocol.records import Failure, JudgeLine, Preflight, Result, Turn
from evalhub.protocol.redaction import Held, redacted, redacted_text, secret_counts
from evalhub.protocol.secrets import Secret, make_ready
from tests.evalhub.protocol.secret_samples import AWS_KEY, GITHUB_TOKEN, PRIVATE_KEY, STRIPE_KEY

PASSWORD = 'Tr0ub4dor&3 "quoted" \\ pässword'
TOKEN = "9fK2mQ7xLw4Zt8Rb1Vn6"
HELD = Held([Secret("env", PASSWORD, is_held=True), Secret("env", TOKEN, is_held=True)])


def turn(text: str, **fields: object) -> bytes:
    line = {"turn": 1, "role": "tool", "kind": "tool_result", "text": text, **fields}
    return json.dumps(line).encode() + b"\n"


def text_of(data: bytes) -> str:
    return str(json.loads(data)["text"])


@pytest.mark.parametrize(
    "written",
    [
        TOKEN,
        f"Bearer {TOKEN}",
        json.dumps({"a": json.dumps({"b": TOKEN})}),
        "".join(f"\\u{ord(c):04x}" for c in TOKEN),
        f"{TOKEN[:7]}\n   {TOKEN[7:13]}\r\n{TOKEN[13:]}",
        json.dumps({"a": f"{TOKEN[:7]}\n{TOKEN[7:]}"}),
        f"https://x.test/?key={quote(TOKEN)}",
        "Basic " + b64encode(f"user:{TOKEN}".encode()).decode(),
        "Basic " + b64encode(f"u:{TOKEN}x".encode()).decode(),
        "Basic " + b64encode(f"me:{TOKEN}".encode()).decode(),
    ],
)
def test_redacted_replaces_a_held_value_however_it_is_written(written: str) -> None:
    done = redacted(turn(f"before {written} after"), ItemKind.TRANSCRIPT, held=HELD)

    text = text_of(done.data)
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert "[redacted:env:1]" in text
    for piece in (TOKEN, TOKEN[:7], TOKEN[7:13], quote(TOKEN)):
        assert piece not in text
    assert b64encode(TOKEN.encode())[4:-4].decode() not in text
    assert done.counts == {"env": 1}


@pytest.mark.parametrize(
    "written",
    [
        PASSWORD,
        json.dumps(PASSWORD),
        json.dumps({"p": json.dumps({"q": PASSWORD})}),
        quote(PASSWORD),
    ],
)
def test_redacted_replaces_a_value_full_of_escapes(written: str) -> None:
    done = redacted(turn(written), ItemKind.TRANSCRIPT, held=HELD)

    assert "Tr0ub4dor" not in text_of(done.data)
    assert done.counts == {"env": 1}


def test_redacted_gives_one_secret_one_number_and_another_the_next() -> None:
    data = turn(f"{TOKEN} {PASSWORD} {TOKEN}")

    text = text_of(redacted(data, ItemKind.TRANSCRIPT, held=HELD).data)

    assert text in {
        "[redacted:env:1] [redacted:env:2] [redacted:env:1]",
        "[redacted:env:2] [redacted:env:1] [redacted:env:2]",
    }


def test_redacted_finds_keys_by_their_shape() -> None:
    data = turn(
        f"export AWS_ACCESS_KEY_ID={AWS_KEY}; curl -u {STRIPE_KEY}: -H 'token {GITHUB_TOKEN}'"
    )

    text = text_of(redacted(data, ItemKind.TRANSCRIPT).data)

    assert len(MARKER.findall(text)) == 3
    for key in (AWS_KEY, STRIPE_KEY, GITHUB_TOKEN):
        assert key not in text


@pytest.mark.parametrize("wrapped", [str, json.dumps, lambda key: json.dumps(json.dumps(key))])
def test_redacted_replaces_a_private_key_of_many_lines(wrapped: object) -> None:
    written = wrapped(f"here:\n{PRIVATE_KEY}\nthat was it")  # type: ignore[operator]

    done = redacted(turn(written), ItemKind.TRANSCRIPT)

    text = text_of(done.data)
    assert "[redacted:private-key:1]" in text
    assert "that was it" in text
    assert "MII" not in text
    assert "END" not in text


def test_redacted_replaces_a_private_key_that_is_cut_short() -> None:
    cut = "\n".join(PRIVATE_KEY.splitlines()[:4])

    done = redacted(turn(f"{cut}\n\nNow what?"), ItemKind.TRANSCRIPT)

    assert text_of(done.data) == "[redacted:private-key:1]\n\nNow what?"


def test_redacted_leaves_prose_about_a_private_key_alone() -> None:
    data = turn(
        "A file that begins with -----BEGIN RSA PRIVATE KEY----- is a private key, keep it."
    )

    assert redacted(data, ItemKind.TRANSCRIPT).data == data


def test_redacted_keeps_numbers_and_names_of_a_result_as_they_were_written() -> None:
    digest = "sha256:" + "5e" * 32
    data = (
        b'{"outcome":"failed","scores":{"latency_s":12.40,"steps":1E2},'
        b'"world":{"seed_digest":"%s"},"extra":{"%s":[9007199254740993,0.10,"x %s"]},'
        b'"error":{"origin":"agent","type":"Auth","message":"bad key %s"}}'
    ) % (digest.encode(), TOKEN.encode(), TOKEN.encode(), TOKEN.encode())
    held = Held([Secret("env", TOKEN), Secret("env", digest), Secret("env", "latency_s")])

    done = redacted(data, ItemKind.RESULT, held=held, number=lambda _: 1).data

    mark = b"[redacted:env:1]"
    assert done == data.replace(TOKEN.encode(), mark)
    assert parse_document(Result, done).scores == {"latency_s": 12.4, "steps": 100.0}


def test_redacted_keeps_what_a_judge_line_is_known_by() -> None:
    line = {
        "call_id": "0192f0c4-aaaa-4bbb-8ccc-1234567890ab",
        "rubric": "correctness",
        "stage": "llm",
        "fingerprint": "sha256:" + "ab" * 32,
        "value": 7.25,
        "rationale": f"It printed {TOKEN} and 0192f0c4-aaaa-4bbb-8ccc-1234567890ab.",
        "cost_microusd": 18900,
    }
    held = Held([Secret("env", str(value)) for value in line.values()] + [Secret("env", TOKEN)])

    done = redacted(json.dumps(line).encode(), ItemKind.JUDGE, held=held, number=lambda _: 1).data

    kept = parse_document(JudgeLine, done)
    assert str(kept.call_id) == line["call_id"]
    assert kept.fingerprint == line["fingerprint"]
    assert kept.value == 7.25
    assert kept.cost_microusd == 18900
    assert kept.rationale == "[redacted:env:1]"


def test_redacted_changes_only_the_lines_that_hold_a_secret() -> None:
    odd = b'{ "turn" : 2, "role":"tool","kind":"tool_result","text":"NaN \\u00e9 1e999" }\r\n'
    data = odd + turn(TOKEN) + odd

    lines = redacted(data, ItemKind.TRANSCRIPT, held=HELD).data.split(b"\n")

    assert lines[0] + b"\n" == lines[2] + b"\n" == odd
    assert parse_document(Turn, lines[1]).text == "[redacted:env:1]"


def test_redacted_cleans_lines_that_are_no_json_as_text() -> None:
    data = b'{"turn": 1, "text": "' + TOKEN.encode() + b"\n" + b"\xff\xfe" + TOKEN.encode() + b"\n"

    done = redacted(data, ItemKind.TRANSCRIPT, held=HELD).data

    assert done == data.replace(TOKEN.encode(), b"[redacted:env:1]")


READABLE = [
    "sha256:" + "5e" * 32,
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "0192f0c4-7b1e-7cc3-9d7e-2a51d1c7a001",
    "pi_3MtwBwLkdIwHu7ix28a3tqPa ch_3MmlLrLkdIwHu7ix0snN0B15 cus_NffrFeUfNV2Hib re_1Nispe2eZvKYlo2C",
    "pi_3MtwBwLkdIwHu7ix28a3tqPa_secret_YrKJUKribcBjcG8HVhfZluoGH",
    "att_abcdefghij0123456789 rem_0123456789abcdef",
    b64encode(bytes(range(256)) * 8).decode(),
    "data:image/png;base64," + b64encode(b"\x89PNG" + bytes(range(200))).decode(),
    "2026-11-29T12:00:00.123456Z 1e400 9007199254740993 +49 30 123456789 DE89370400440532013000",
    "https://example.com/a/very/long/path/that-goes-on/2026/11/29?page=12&order=AB12CD34EF56GH78",
    "password: correct horse battery staple; the token is in the vault; api_key = YOUR_API_KEY_HERE",
    "git@github.com:acme/support-agent.git https://user@example.com/x postgres://db.internal:5432/app",
]


@pytest.mark.parametrize("text", READABLE)
def test_redacted_leaves_identifiers_digests_and_encoded_bodies_readable(text: str) -> None:
    make_ready()
    data = turn(text)

    assert redacted(data, ItemKind.TRANSCRIPT, held=HELD).data == data


@pytest.mark.parametrize(
    "pattern",
    [
        p
        for module in (secrets, redaction, markers)
        for p in vars(module).values()
        if isinstance(p, re.Pattern)
    ],
)
def test_no_pattern_can_go_back_and_forth_for_long(pattern: re.Pattern[str]) -> None:
    """Whatever repeats without a bound never gives back what it took, and nothing repeats it."""
    parsed = re_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)

    assert list(unbounded(parsed)) == []


def unbounded(parsed: Any) -> Iterator[str]:
    """Yield repetitions that can be tried in many ways: without bound, and not possessive."""
    for operation, arguments in parsed:
        name = str(operation)
        if name in {"MAX_REPEAT", "MIN_REPEAT"} and arguments[1] > 70_000:
            yield f"{name} of {arguments[2]}"
        for inner in arguments if isinstance(arguments, tuple | list) else ():
            for branch in inner if isinstance(inner, list) else [inner]:
                if isinstance(branch, re_parser.SubPattern):
                    yield from unbounded(branch)


def test_redacted_looks_into_no_binary() -> None:
    data = b"\x89PNG\x00" + TOKEN.encode()

    assert redacted(data, ItemKind.FILE, held=HELD).data == data


@pytest.mark.parametrize("kind", [ItemKind.TRANSCRIPT, ItemKind.FILE, ItemKind.LOG])
def test_redacted_again_changes_nothing(kind: ItemKind) -> None:
    once = redacted(turn(f"{AWS_KEY} {TOKEN} password='{STRIPE_KEY}'"), kind, held=HELD)

    assert once.is_changed
    assert redacted(once.data, kind, held=HELD).data == once.data


def test_redacted_is_not_confused_by_markers_that_the_agent_writes() -> None:
    fakes = " ".join(f"[redacted:{kind}:{n}]" for kind in ("env", "aws") for n in (1, 2, 999999999))
    data = turn(f"{fakes} [redacted:env:9999999999999] [redacted:x:] {TOKEN}")

    done = redacted(data, ItemKind.TRANSCRIPT, held=HELD)

    assert text_of(done.data).startswith(fakes)
    # Its own marker takes a number that nobody wrote before it.
    assert text_of(done.data).endswith("[redacted:x:] [redacted:env:3]")
    assert redacted(turn(fakes), ItemKind.TRANSCRIPT).data == turn(fakes)


def test_redacted_replaces_whole_texts_of_an_item_that_is_made_of_keys() -> None:
    digests = [b64encode(sha256(b"%d" % n).digest()).decode() for n in range(300)]
    keys = [f"ghp_{digest[:36].translate({43: 'x', 47: 'y'})}" for digest in digests]
    data = turn(" ".join(keys), extra={"n": 5, "note": "short"})

    done = redacted(data, ItemKind.TRANSCRIPT)

    document = json.loads(done.data)
    assert document["text"] == "[redacted:many:1]"
    assert document["extra"] == {"n": 5, "note": "short"}
    assert (document["turn"], document["role"]) == (1, "tool")


@given(st.text(), st.integers(min_value=0, max_value=40))
def test_redacted_text_never_keeps_a_held_value(around: str, place: int) -> None:
    text = around[:place] + TOKEN + around[place:]
    done = redacted(text.encode(errors="surrogatepass"), ItemKind.LOG, held=HELD)

    assert TOKEN.encode() not in done.data


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(TOKEN),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(TOKEN), inner),
        max_leaves=8,
    )
)
def test_redacted_keeps_json_json(extra: object) -> None:
    data = json.dumps({"turn": 1, "role": "tool", "kind": "note", "extra": {"it": extra}}).encode()

    done = redacted(data, ItemKind.TRANSCRIPT, held=HELD).data

    assert TOKEN not in json.dumps(json.loads(done))
    if TOKEN.encode() not in data:
        assert done == data


def test_redacted_text_cleans_a_sentence() -> None:
    assert AWS_KEY not in redacted_text(f"/outcome was {AWS_KEY!r}; expected one of …")
    assert redacted_text("plain \udc80") == "plain \udc80"


def test_secret_counts_counts_different_secrets_by_kind_and_looks_at_the_name() -> None:
    data = turn(f"{AWS_KEY} {AWS_KEY}")

    assert sum(secret_counts(data, ItemKind.TRANSCRIPT).values()) == 1
    assert sum(secret_counts(b"nothing", ItemKind.FILE, name=f"{GITHUB_TOKEN}.txt").values()) == 1
    assert not secret_counts(b'{"counts": {"aws": 1}}', ItemKind.REDACTIONS)


def aws_key(number: int) -> str:
    """Return one of many different keys of AWS."""
    letters = Random(number).choices("QZXYLPMNFHIRTUVWGSK234567", k=16)  # noqa: S311 - opens nothing
    return f"AKIA{''.join(letters)}"


@pytest.mark.parametrize(
    "key",
    [
        "AKIA" + "QZXYLPMNFHIRTUVW",
        "AKIA" + "HTIRIGMWQNFYKN26",
        "ghp_" + "aBcdEfghIjkmNopqRstuvWxyzZcFhJlMnQrTv",
        "sk_" + "live_" + "HqLyjWDarjtTzdpdcQxKfnVb",
        "hf_" + "fTqWzLmRkVbXnGpJcHdYsQaKuEoIrMtZvL",
    ],
)
def test_redacted_finds_keys_that_have_no_digits_or_look_like_names(key: str) -> None:
    assert key not in text_of(redacted(turn(f"It is {key}."), ItemKind.TRANSCRIPT).data)


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-" + "api03-" + "f2Qw9ZkR7mXb4nVp3JcH" * 4 + "dYs8QaKu5EoIr" + "AA",
        "AIza" + "f2Qw9ZkR7mXb4nVp3JcHdYs8QaKu5EoIrMt",
        "hf_" + "fTqWzLmRkVbXnGpJcHdYsQaKuEoIrMtZvL",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9" + "."
        "eyJzdWIiOiIxMjM0NTY3ODkwIiwiaWF0IjoxNTE2MjM5MDIyfQ" + "."
        "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
        GITHUB_TOKEN,
    ],
)
@pytest.mark.parametrize("end", [*" .,:;!?)]}>|&*@`'\"", "...", "\n", ""])
def test_redacted_finds_a_key_whatever_stands_behind_it(key: str, end: str) -> None:
    assert key not in text_of(redacted(turn(f"It is ({key}{end}"), ItemKind.TRANSCRIPT).data)


@pytest.mark.parametrize(
    "key",
    [
        "sk-or-v1-" + "3f9c1b7e5d2a8046" * 4,
        "xai-" + "aB3dE6gH9jK2mN5pQ8sT" * 4,
        "SG." + "aB3dE6gH9jK2mN5pQ8sT1v" + "." + "W4yZ7cF0hJ3lMnaB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF",
    ],
)
def test_redacted_finds_keys_that_the_detector_does_not_know(key: str) -> None:
    assert key not in text_of(redacted(turn(f"It is {key}."), ItemKind.TRANSCRIPT).data)


def test_redacted_cleans_names_that_are_not_ours() -> None:
    guard = {"name": "g", "expected": {GITHUB_TOKEN: 1}, "result": "ok", "fix": "x"}

    done = redacted(json.dumps({"guards": [guard]}).encode(), ItemKind.PREFLIGHT)
    faults = redacted(json.dumps({AWS_KEY: {GITHUB_TOKEN: 1}}).encode(), ItemKind.FAULTS)

    assert json.loads(done.data)["guards"][0]["expected"] == {"[redacted:github-pat:1]": 1}
    assert AWS_KEY.encode() not in faults.data
    assert GITHUB_TOKEN.encode() not in faults.data


def test_redacted_keeps_texts_within_the_bounds_of_their_fields() -> None:
    """A key of AWS is shorter than its marker, and a name of 500 characters may be full of them."""
    name = " ".join(aws_key(number) for number in range(23))
    label = " ".join(aws_key(number) for number in range(9))
    failure = {"category": label, "root_cause": name, "by": label}
    line = {"turn": 1, "role": "tool", "kind": "tool_call", "agent": name, "tool": {"name": name}}

    parse_document(Turn, redacted(json.dumps(line).encode(), ItemKind.TRANSCRIPT).data)
    shown = redacted(json.dumps(failure).encode(), ItemKind.FAILURE).data

    assert parse_document(Failure, shown).root_cause.count("[redacted:") == 23
    assert "AKIA" not in shown.decode()


def test_redacted_leaves_a_document_of_keys_alone_what_it_is() -> None:
    guards = [
        {
            "name": "g",
            "expected": {key: key},
            "result": "ok",
            "at": "2026-11-29T12:00:00Z",
            "fix": key,
        }
        for key in map(aws_key, range(250))
    ]

    done = redacted(json.dumps({"guards": guards}).encode(), ItemKind.PREFLIGHT)

    shown = parse_document(Preflight, done.data)
    assert shown.guards[0].at is not None
    assert b"AKIA" not in done.data


def test_redacted_trusts_no_field_of_what_was_refused() -> None:
    data = json.dumps({"outcome": GITHUB_TOKEN, "world": {AWS_KEY: AWS_KEY}}).encode()

    done = redacted(data, ItemKind.RESULT, is_sound=False)

    assert json.loads(done.data).keys() == {"outcome", "world"}
    assert GITHUB_TOKEN.encode() not in done.data
    assert AWS_KEY.encode() not in done.data


def test_redacted_looks_into_the_record_of_redactions() -> None:
    data = json.dumps({"counts": {GITHUB_TOKEN: 1, "github-pat": 2}}).encode()

    done = redacted(data, ItemKind.REDACTIONS)

    assert json.loads(done.data)["counts"] == {"[redacted:github-pat:1]": 1, "github-pat": 2}


def test_redacted_leaves_the_names_of_measured_values() -> None:
    """Statistics go by them."""
    data = json.dumps({"outcome": "passed", "scores": {STRIPE_KEY.lower(): 1.0}}).encode()

    assert redacted(data, ItemKind.RESULT).data == data
