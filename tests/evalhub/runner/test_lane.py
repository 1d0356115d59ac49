"""`lane run` against a store over HTTP: what it sends, and what it does when things go wrong."""

import json
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evalhub.protocol.faults import parse_document
from evalhub.protocol.paths import ItemKind
from evalhub.protocol.records import LaneEnvironment, Preflight
from evalhub.runner.delivery_words import as_document, trouble
from evalhub.runner.errors import Exit, GuardRefusedError, StoreUnreachableError
from evalhub.runner.fingerprints import fingerprint
from tests.evalhub.runner.alive import eventually, is_alive, number_in
from tests.evalhub.runner.documents import make_scenario, make_suite
from tests.evalhub.runner.lanes import lane_process, make_lane, push_process, run
from tests.evalhub.runner.loopback import SALT, LoopbackStore

pytestmark = pytest.mark.slow


def outcomes(store: LoopbackStore) -> dict[str, str]:
    return {
        path.split("/")[1]: json.loads(data)["outcome"]
        for path, data in store.items().items()
        if path.endswith("result.json")
    }


def test_a_lane_leaves_what_its_plan_expects(store: LoopbackStore, tmp_path: Path) -> None:
    made = make_lane(tmp_path, "ok1", "ok2", "crash")

    report, said = run(made, store.url)

    assert (report.exit_code, report.sealed, said) == (Exit.GOOD, True, [])
    assert outcomes(store) == {"crash": "agent_error", "ok1": "passed", "ok2": "passed"}
    items = store.items()
    assert {"lane/preflight.json", "lane/environment.json", "lane/logs/agent.1.log"} <= set(items)
    transcripts = [p for p in items if "transcript" in p]
    assert len(transcripts) == 3
    assert b"KeyError: 'x'" in items["runs/crash/candidate/1/transcript.1.ndjson"]
    assert store.beats[0]["total"] == 3


def test_the_log_has_every_line_with_its_run(store: LoopbackStore, tmp_path: Path) -> None:
    run(make_lane(tmp_path, "ok1", "crash"), store.url)

    log = b"".join(data for path, data in store.items().items() if path.startswith("lane/logs/"))

    assert b"[ok1/candidate/1] agent works on ok1\n" in log
    assert b"[crash/candidate/1] KeyError: 'x'\n" in log
    assert b"# crash/candidate/1 ended: agent_error (exited)\n" in log


def test_records_of_the_lane_are_what_wire_says(store: LoopbackStore, tmp_path: Path) -> None:
    run(make_lane(tmp_path), store.url)

    preflight = parse_document(Preflight, store.items()["lane/preflight.json"])
    environment = parse_document(LaneEnvironment, store.items()["lane/environment.json"])

    assert {guard.name: guard.result for guard in preflight.guards} == {
        "agent_command": "ok",
        "agent_environment": "ok",
        "clock": "ok",
        "memory_effect": "ok",
    }
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert environment.machine is not None
    assert environment.machine.boot_id == fingerprint(boot_id, salt=SALT)
    assert environment.canary is None
    assert environment.memory is False


def test_the_agent_sees_the_contract_and_no_secret(store: LoopbackStore, tmp_path: Path) -> None:
    suite = make_suite(make_scenario("environment", file="evals/a.yaml"))
    made = make_lane(tmp_path, suite=suite)
    secrets = {"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "oidc-secret", "OPENAI_API_KEY": "sk-agent"}

    run(
        made,
        store.url,
        environment={**os.environ, "EVALHUB_TOKEN": "run-token", **secrets},
        pass_env=["OPENAI_API_KEY"],
    )

    seen = store.document("runs/environment/candidate/1/files/environment%2Ejson")
    assert {n: v for n, v in seen.items() if n.startswith("EVALHUB_")} == {
        "EVALHUB_RUN_DIR": str(made.attempt / "runs/environment/candidate/1"),
        "EVALHUB_SCENARIO": "environment",
        "EVALHUB_SCENARIO_FILE": str(Path("evals/a.yaml").absolute()),
        "EVALHUB_ARM": "candidate",
        "EVALHUB_SUBJECT": "support-agent",
        "EVALHUB_MODEL": "luna-6",
        "EVALHUB_CONDITION": "clean",
        "EVALHUB_EPOCH": "1",
        "EVALHUB_MEMORY": "0",
    }
    assert seen["OPENAI_API_KEY"] == "sk-agent"
    assert "oidc-secret" not in json.dumps(seen)


def test_no_token_is_ever_in_the_spool(store: LoopbackStore, tmp_path: Path) -> None:
    made = make_lane(tmp_path, "ok1", "crash")

    run(made, store.url)

    for path in made.spool.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert b"lane-token" not in data, path
            assert b"run-token" not in data, path


def test_a_lane_with_memory_has_one_of_its_own(store: LoopbackStore, tmp_path: Path) -> None:
    suite = make_suite(make_scenario("remember", category="memory"), memory_categories=["memory"])
    made = make_lane(tmp_path, suite=suite, epochs=2)

    report, _ = run(made, store.url, jobs=1)

    log = b"".join(data for path, data in store.items().items() if path.startswith("lane/logs/"))
    assert report.exit_code == Exit.GOOD
    assert b"remembers ['1']" in log
    assert b"remembers ['1', '2']" in log
    assert store.document("lane/environment.json")["memory"] is True


def test_the_simulator_is_the_lanes_own_and_is_reported(
    store: LoopbackStore, tmp_path: Path
) -> None:
    made = make_lane(tmp_path, "environment")

    run(made, store.url, simulator="evalhub.payments", simulator_seed=7)

    seen = store.document("runs/environment/candidate/1/files/environment%2Ejson")
    (simulator,) = store.document("lane/environment.json")["simulators"]
    assert seen["EVALHUB_SIMULATOR_URL"].startswith("http://127.0.0.1:")
    assert seen["EVALHUB_SIMULATOR_KEY"]
    assert (simulator["name"], simulator["requests"]) == ("payments", 0)
    assert simulator["final_digest"] == simulator["seed_digest"]


# Guards


@pytest.mark.parametrize(
    ("lane", "request_fields", "guard"),
    [
        ({}, {"command": ["/nowhere/agent"]}, "agent_command"),
        ({}, {"pass_env": ["COPY_OF_TOKEN"]}, "agent_environment"),
        (
            {"simulator": {"name": "payments", "build": f"sha256:{1:064}"}},
            {"simulator": "evalhub.payments"},
            "simulator_up",
        ),
        ({"simulator": {"name": "payments", "build": f"sha256:{1:064}"}}, {}, "simulator_up"),
    ],
)
def test_a_failed_guard_stops_the_lane_before_its_first_run(
    store: LoopbackStore,
    tmp_path: Path,
    lane: dict[str, Any],
    request_fields: dict[str, Any],
    guard: str,
) -> None:
    environment = {**os.environ, "EVALHUB_TOKEN": "run-token", "COPY_OF_TOKEN": "run-token"}

    with pytest.raises(GuardRefusedError, match=f"  {guard} expected") as caught:
        run(make_lane(tmp_path, **lane), store.url, environment=environment, **request_fields)

    assert caught.value.exit_code == 5
    failed = [g for g in store.document("lane/preflight.json")["guards"] if g["result"] == "failed"]
    assert [g["name"] for g in failed] == [guard]
    assert outcomes(store) == {}


def test_a_clock_that_is_wrong_is_a_failed_guard(store: LoopbackStore, tmp_path: Path) -> None:
    store.clock_offset = timedelta(minutes=6)

    with pytest.raises(GuardRefusedError, match=r"clock expected within 240 s .*; saw -3[56]\d s"):
        run(make_lane(tmp_path), store.url)


# A store in trouble


def test_a_lane_that_cannot_open_an_attempt_uses_nothing(
    store: LoopbackStore, tmp_path: Path
) -> None:
    store.troubled("attempts", "503")
    made = make_lane(tmp_path)

    with pytest.raises(StoreUnreachableError) as caught:
        run(made, store.url, opening_seconds=0)

    assert caught.value.exit_code == 4
    assert not made.spool.exists()


@pytest.mark.parametrize("trouble", ["503", "cut", "lost"])
def test_trouble_on_the_way_loses_and_doubles_nothing(
    store: LoopbackStore, tmp_path: Path, trouble: str
) -> None:
    for call in ("segment", "heartbeat", "seal"):
        store.troubled(call, trouble, trouble)

    report, said = run(make_lane(tmp_path, "ok1", "ok2"), store.url)

    assert report.exit_code == Exit.GOOD
    assert outcomes(store) == {"ok1": "passed", "ok2": "passed"}
    assert sorted(store.segments) == list(range(1, len(store.segments) + 1))
    # A lost answer is told once, not at every try.
    assert sum("Evidence waits in" in line for line in said) == 1


def test_a_token_that_is_forgotten_is_renewed_on_the_way(
    store: LoopbackStore, tmp_path: Path
) -> None:
    store.opening_token = "forgotten"

    report, _ = run(make_lane(tmp_path, "ok1"), store.url)

    assert report.exit_code == Exit.GOOD
    assert store.requests["token"] == 1


def test_a_short_lived_token_is_renewed_before_it_expires(
    store: LoopbackStore, tmp_path: Path
) -> None:
    store.expires_in = 0

    report, _ = run(make_lane(tmp_path, "ok1"), store.url)

    assert report.exit_code == Exit.GOOD
    assert store.requests["token"] >= 3


def test_other_bytes_under_a_number_end_the_upload(store: LoopbackStore, tmp_path: Path) -> None:
    store.segments[1] = b"of another spool"

    report, said = run(make_lane(tmp_path), store.url)

    assert report.exit_code == Exit.WRONG_INPUT
    assert not report.sealed
    assert any("is not what the store has" in line for line in said)


def test_refused_items_are_told_counted_and_not_sent_again(
    store: LoopbackStore, tmp_path: Path
) -> None:
    store.refuse = {ItemKind.RESULT}

    report, said = run(make_lane(tmp_path, "ok1"), store.url)

    assert (report.exit_code, report.refused) == (Exit.GATE_FAILED, 1)
    assert said == []
    told = trouble(report)
    assert told[0] == (
        "Refused as malformed (scripted): runs/ok1/candidate/1/result.json: As the test asks."
    )
    assert told[1:] == ["1 item is refused and in the plan's quarantine."]
    assert store.requests["segment"] == len(store.segments)


def test_what_the_store_misses_is_told(store: LoopbackStore, tmp_path: Path) -> None:
    store.missing = ["runs/ok/candidate/1/transcript.1.ndjson"]

    report, _ = run(make_lane(tmp_path), store.url)

    assert report.exit_code == Exit.GATE_FAILED
    assert report.missing == store.missing


def test_an_invalid_result_is_told_and_sent_as_it_is(store: LoopbackStore, tmp_path: Path) -> None:
    report, said = run(make_lane(tmp_path, "invalid"), store.url)

    assert report.outcomes == {"invalid": 1}
    assert any("result.json is not valid: /outcome was absent" in line for line in said)
    assert store.items()["runs/invalid/candidate/1/result.json"] == b"{}"


def test_a_command_that_is_wrong_is_told_early_and_at_the_end(
    store: LoopbackStore, tmp_path: Path
) -> None:
    made = make_lane(tmp_path, *(f"crash{i}" for i in range(4)))

    report, said = run(made, store.url, jobs=1)

    assert report.exit_code == Exit.GATE_FAILED
    assert set(outcomes(store).values()) == {"agent_error"}
    (early,) = said
    assert early.startswith("The first 3 runs of the command ended with 1 and wrote no result.json")
    (told,) = trouble(report)
    assert told == (
        "The command ended with 1 in all 4 runs and never wrote result.json; the end of its "
        "output:\n  agent works on crash3\n  KeyError: 'x'"
    )
    assert as_document(report)["fruitless"] == told


# Ends before the time


def test_the_store_can_stop_a_lane(store: LoopbackStore, tmp_path: Path) -> None:
    store.stop_reason = "superseded"

    report, said = run(make_lane(tmp_path, "slow"), store.url)

    assert (report.exit_code, report.stopped) == (Exit.GATE_FAILED, "superseded")
    assert outcomes(store) == {}
    assert "The store says stop: superseded." in said


def test_without_judge_money_the_rest_is_not_run(store: LoopbackStore, tmp_path: Path) -> None:
    store.stop_reason = "budget"

    run(make_lane(tmp_path, *(f"ok{i}" for i in range(8))), store.url, jobs=1)

    found = outcomes(store)
    assert len(found) == 8
    assert set(found.values()) <= {"passed", "budget_exceeded"}
    assert found["ok7"] == "budget_exceeded"


def test_progress_is_written_for_whoever_watches(store: LoopbackStore, tmp_path: Path) -> None:
    progress = tmp_path / "progress.json"

    run(make_lane(tmp_path, "ok1", "crash"), store.url, progress_file=progress)

    assert json.loads(progress.read_text()) | {"segments": 0} == {
        "lane": "ordinary-1",
        "attempt": "att_abcdefghij0123456789",
        "phase": "sealed",
        "done": 2,
        "total": 2,
        "outcomes": {"passed": 1, "agent_error": 1},
        "segments": 0,
        "unsent": 0,
    }


def test_sigterm_flushes_what_there_is_and_leaves_the_seal_open(
    store: LoopbackStore, tmp_path: Path
) -> None:
    made = make_lane(tmp_path, "ok1", "slow")
    with lane_process(made, store.url) as lane:
        assert eventually(lambda: outcomes(store) == {"ok1": "passed"})
        agent = number_in(made.attempt / "runs/slow/candidate/1/pid")

        lane.send_signal(signal.SIGTERM)
        _, err = lane.communicate(timeout=30)

    assert lane.returncode == 1
    assert "stopped before its end: SIGTERM" in err
    assert f"go on with `evalhub push {made.attempt}`" in err
    assert "Traceback" not in err
    assert not is_alive(agent)
    assert store.seals == []
    # What the unfinished run had said is there to read.
    assert b"begin" in store.items()["runs/slow/candidate/1/transcript.1.ndjson"]
    assert "lane/environment.json" in store.items()


@pytest.mark.parametrize("trouble", [[], ["503"] * 10_000], ids=["store-there", "store-away"])
def test_after_kill_9_push_completes_what_was_on_disk(
    store: LoopbackStore, tmp_path: Path, trouble: list[str]
) -> None:
    made = make_lane(tmp_path, "ok1", "ok2", "slow")
    store.troubled("segment", *trouble)
    with lane_process(made, store.url, "--simulator", "evalhub.payments") as lane:
        agent = number_in_any(made.spool, "*/runs/slow/candidate/1/pid")
        assert eventually(lambda: len(list(made.attempt.glob("ended/ok*/candidate/1.json"))) == 2)
        lane.kill()

    before = dict(store.segments)
    assert bool(trouble) == (before == {})
    assert eventually(lambda: not is_alive(agent))
    store.troubled("segment")
    with push_process(store.url, str(made.spool)) as push:
        out, err = push.communicate(timeout=60)

    assert push.returncode == 0, err
    assert "is sealed" in out
    assert outcomes(store) == {"ok1": "passed", "ok2": "passed"}
    assert b"begin" in store.items()["runs/slow/candidate/1/transcript.1.ndjson"]
    assert store.document("lane/environment.json")["simulators"][0]["name"] == "payments"
    assert {seq: store.segments[seq] for seq in before} == before


def number_in_any(folder: Path, pattern: str) -> int:
    assert eventually(lambda: list(folder.glob(pattern)))
    return number_in(next(folder.glob(pattern)))


def test_push_goes_on_from_a_copy_on_another_machine(store: LoopbackStore, tmp_path: Path) -> None:
    made = make_lane(tmp_path, "ok1", "slow")
    store.troubled("segment", *["503"] * 10_000)
    with lane_process(made, store.url) as lane:
        number_in_any(made.spool, "*/runs/slow/candidate/1/pid")
        assert eventually(lambda: list(made.attempt.glob("ended/ok1/candidate/1.json")))
        lane.kill()
    copy = made.spool.rename(tmp_path / "elsewhere")
    store.troubled("segment")

    with push_process(store.url, str(copy), "--json") as push:
        out, _ = push.communicate(timeout=60)

    assert json.loads(out)["sealed"]
    assert outcomes(store) == {"ok1": "passed"}


def test_push_says_that_a_lane_is_still_at_work(store: LoopbackStore, tmp_path: Path) -> None:
    made = make_lane(tmp_path, "slow")
    with lane_process(made, store.url) as lane:
        number_in_any(made.spool, "*/runs/slow/candidate/1/pid")

        with push_process(store.url, str(made.spool)) as push:
            _, err = push.communicate(timeout=60)
        lane.terminate()
        lane.communicate(timeout=30)

    assert push.returncode == 2
    assert "is in use by a running lane" in err


def test_push_twice_changes_nothing(store: LoopbackStore, tmp_path: Path) -> None:
    made = make_lane(tmp_path, "ok1")
    run(made, store.url)
    before = dict(store.segments)

    with push_process(store.url, str(made.attempt)) as push:
        push.communicate(timeout=60)

    assert push.returncode == 0
    assert store.segments == before


@pytest.mark.parametrize("dashes", [["--"], []])
def test_the_agents_own_flags_are_left_to_it(
    store: LoopbackStore, tmp_path: Path, dashes: list[str]
) -> None:
    made = make_lane(tmp_path, "ok1")
    command = [*dashes, "env", "--unset=HOME", *made.command]

    with lane_process(made._replace(command=command), store.url, "--json") as lane:
        out, err = lane.communicate(timeout=60)

    assert lane.returncode == 0, err
    assert json.loads(out)["outcomes"] == {"passed": 1}
