"""What another process of the same user can learn of a lane."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# As nobody: an owner with a secret in its environment, and a process that looks for it.
PROGRAM = """
import os, sys, ctypes
from evalhub.runner.privacy import keep_private

def as_nobody():
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a process is that never was root

def look(owner):
    pid = os.fork()
    if pid == 0:
        as_nobody()
        try:
            seen = open(f"/proc/{owner}/environ", "rb").read()
            os._exit(0 if b"EVALHUB_TOKEN=secret" in seen else 1)
        except PermissionError:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

to_parent, from_child = os.pipe(), os.pipe()
owner = os.fork()
if owner == 0:
    as_nobody()
    os.write(to_parent[1], b"1")
    os.read(from_child[0], 1)
    keep_private()
    os.write(to_parent[1], b"2")
    os.read(from_child[0], 1)
    os._exit(0)
os.read(to_parent[0], 1)
open_answer = look(owner)
os.write(from_child[1], b"x")
os.read(to_parent[0], 1)
private_answer = look(owner)
os.write(from_child[1], b"x")
os.waitpid(owner, 0)
print(open_answer, private_answer)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two processes of another user")
def test_the_agent_cannot_read_the_lanes_environment() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "EVALHUB_TOKEN": "secret"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    # 0: found the secret; 2: not permitted to look.
    assert done.stdout.split() == ["0", "2"], done.stderr
