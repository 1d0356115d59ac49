"""Settings that are misspelled, doubled, too weak, or do not fit together are told in sentences."""

import ast
import re

import pytest
from pytest_django import Settings

from evalhub.doctor import configuration
from evalhub.doctor.findings import Level
from tests.architecture.sources import sources
from tests.evalhub.doctor.telling import OK, WARNING, WRONG, only


def test_misspelled_setting_is_told_with_what_was_meant() -> None:
    given = {"EVALHUB_S3_BUCKT": "evidence", "EVALHUB_DATA": "/data", "PATH": "/bin"}

    finding = only(configuration.unknown_variables(given), WRONG)

    assert finding.sentence == (
        "EVALHUB_S3_BUCKT is not a setting, so it does nothing; did you mean EVALHUB_S3_BUCKET?"
    )
    assert finding.fix == "Rename it to EVALHUB_S3_BUCKET."


def test_misspelled_file_of_a_secret_is_told_too() -> None:
    finding = only(configuration.unknown_variables({"EVALHUB_GITHUB_TOKENFILE": "/run/t"}), WRONG)

    assert "did you mean EVALHUB_GITHUB_TOKEN_FILE?" in finding.sentence


def test_variable_that_resembles_none_is_a_warning() -> None:
    finding = only(configuration.unknown_variables({"EVALHUB_FAVOURITE_COLOUR": "red"}), WARNING)

    assert finding.sentence == "EVALHUB_FAVOURITE_COLOUR is not a setting, so it does nothing."


def test_known_variables_are_counted() -> None:
    given = {"EVALHUB_DATA": "/data", "EVALHUB_URL": "http://x", "EVALHUB_HOST": "x"}

    finding = only(configuration.unknown_variables(given), OK)

    assert finding.sentence == "All 1 EVALHUB_* settings that are given are read."


def test_what_the_lane_side_reads_is_no_mistake() -> None:
    used = {
        node.value
        for source in sources("evalhub/runner", "evalhub/demo")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"EVALHUB_[A-Z_]+", node.value)
    }

    assert used
    unknown = list(configuration.unknown_variables(dict.fromkeys(used, "x")))
    assert [finding.sentence for finding in unknown if finding.level is not OK] == []


def test_secret_that_is_given_twice_is_told() -> None:
    given = {"EVALHUB_GITHUB_TOKEN": "a", "EVALHUB_GITHUB_TOKEN_FILE": "/run/b"}

    finding = only(configuration.doubled_secrets(given), WARNING)

    assert finding.sentence == (
        "Both EVALHUB_GITHUB_TOKEN and EVALHUB_GITHUB_TOKEN_FILE are set; the file counts."
    )


@pytest.mark.parametrize("shared", ["database", "objects"])
def test_key_of_one_machine_is_wrong_where_others_share_its_data(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, shared: str
) -> None:
    monkeypatch.delenv("EVALHUB_SECRET_KEY", raising=False)
    settings.DATABASE_FILE = None if shared == "database" else settings.DATA_DIR / "x.sqlite3"
    settings.S3_BUCKET = "evidence" if shared == "objects" else ""

    finding = only(configuration.secret_key(), WRONG)

    assert "strangers to the next" in finding.sentence
    assert "EVALHUB_SECRET_KEY" in finding.fix


def test_key_in_the_data_directory_is_right_for_one_machine(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVALHUB_SECRET_KEY", raising=False)
    settings.DATABASE_FILE = settings.DATA_DIR / "x.sqlite3"

    assert only(configuration.secret_key(), OK)


def test_short_key_is_told_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALHUB_SECRET_KEY", "hunter2")

    finding = only(configuration.secret_key(), WARNING)

    assert finding.sentence.startswith("The key has 7 characters")
    assert "hunter2" not in str(finding)


@pytest.mark.parametrize(
    ("url", "level"), [("https://evalhub.acme.example", WRONG), ("http://127.0.0.1:8123", WARNING)]
)
def test_debug_pages_are_told(settings: Settings, url: str, level: Level) -> None:
    settings.DEBUG, settings.PUBLIC_URL = True, url

    assert only(configuration.debugging(), level).fix == "Unset EVALHUB_DEBUG."


@pytest.mark.parametrize(
    ("url", "hosts", "token", "level", "part"),
    [
        ("https://e.acme.example", ["e.acme.example"], "t", OK, "its host is answered"),
        ("https://e.acme.example", [".acme.example"], "t", OK, "its host is answered"),
        ("http://127.0.0.1:8123", ["127.0.0.1"], None, OK, "its host is answered"),
        ("http://[::1]:8123", ["[::1]"], None, OK, "its host is answered"),
        ("https://e.acme.example", ["localhost"], None, WRONG, "for e.acme.example are refused"),
        ("e.acme.example", ["*"], None, WRONG, "is no address of a server"),
        ("https://acme.example/evalhub", ["*"], None, WRONG, "is no address of a server"),
        ("http://127.0.0.1:8123", ["127.0.0.1"], "t", WRONG, "which only this machine can open"),
        ("http://e.acme.example", ["e.acme.example"], None, WARNING, "is not encrypted"),
        ("https://e.acme.example", ["*"], None, WARNING, "Every host name is answered"),
    ],
)
def test_public_address_must_be_one_that_is_answered(
    settings: Settings, url: str, hosts: list[str], token: str | None, level: Level, part: str
) -> None:
    settings.PUBLIC_URL, settings.ALLOWED_HOSTS, settings.GITHUB_TOKEN = url, hosts, token

    assert part in only(configuration.addresses(), level).sentence


@pytest.mark.parametrize(
    ("bind", "url", "level", "part"),
    [
        ("127.0.0.1:8123", "http://127.0.0.1:8123", OK, "listens on 127.0.0.1:8123"),
        ("0.0.0.0:8000", "https://e.acme.example", OK, "listens on 0.0.0.0:8000"),
        ("0.0.0.0:8000", "http://127.0.0.1:8123", WARNING, "links lead to http://127.0.0.1:8123"),
        ("8000", "https://e.acme.example", WRONG, "EVALHUB_BIND is '8000'"),
    ],
)
def test_listening_address_must_fit(
    settings: Settings, bind: str, url: str, level: Level, part: str
) -> None:
    settings.BIND, settings.PUBLIC_URL = bind, url

    assert part in only(configuration.listening(), level).sentence
