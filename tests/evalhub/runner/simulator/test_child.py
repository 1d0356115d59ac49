"""A simulator as a real child process."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from evalhub.runner.simulator import server
from evalhub.runner.simulator.child import RunningSimulator, SimulatorError, start_simulator
from evalhub.runner.simulator.seeding import seeded_world

pytestmark = pytest.mark.slow


def client_of(running: RunningSimulator) -> httpx.Client:
    headers = {"Authorization": f"Bearer {running.key}"}
    return httpx.Client(base_url=running.url, headers=headers, trust_env=False)


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until_dead(pid: int) -> bool:
    for _ in range(100):
        if not is_alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_child_serves_the_seeded_world(running: RunningSimulator) -> None:
    with client_of(running) as client:
        answer = client.get("/v1/customers", params={"email": "ana.souza@example.com"})

    assert [row["name"] for row in answer.json()["data"]] == ["Ana Souza"]
    assert running.started["seed_digest"] == seeded_world(7).digest()
    assert running.started["pid"] != os.getpid()


def test_two_children_share_nothing(running: RunningSimulator) -> None:
    with start_simulator(7) as other, client_of(other) as client:
        client.post("/v1/customers", data={"name": "Only here"})
        stranger = httpx.get(f"{running.url}/v1/customers", headers=client.headers, trust_env=False)
        states = running.state(), other.state()

    assert stranger.status_code == 401
    assert states[0]["requests"]["foreign"] >= 1
    assert states[0]["seed_digest"] == states[1]["seed_digest"]
    assert states[0]["final_digest"] != states[1]["final_digest"]
    assert states[0]["instance_id"] != states[1]["instance_id"]


def test_reset_begins_a_new_world(running: RunningSimulator) -> None:
    with client_of(running) as client:
        client.post("/v1/customers", data={"name": "Gone soon"})

    after = running.reset()

    assert after["final_digest"] == after["seed_digest"]
    assert after["world_id"] != running.started["world_id"]


def test_child_ends_with_the_block() -> None:
    with start_simulator(1) as running:
        pid = running.started["pid"]
        assert is_alive(pid)

    assert not is_alive(pid)
    with pytest.raises(SimulatorError, match="does not answer"):
        running.state()


def test_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(
        "import time\n"
        "from evalhub.runner.simulator.child import start_simulator\n"
        "with start_simulator(1) as running:\n"
        "    print(running.started['pid'], flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)

        parent.send_signal(signal.SIGKILL)

        assert wait_until_dead(pid)


def test_main_refuses_a_taken_port_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        code = server.main(["--port", str(port)])

    assert code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_main_prints_one_line_of_json() -> None:
    command = [sys.executable, "-m", "evalhub.runner.simulator.server", "--seed", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        answer = httpx.get(
            f"{ready['url']}/_evalhub/state",
            headers={"Authorization": f"Bearer {ready['key']}"},
            trust_env=False,
        )
        process.terminate()

    assert answer.json()["seed"] == 3
    assert answer.json()["seed_digest"] == ready["seed_digest"]
