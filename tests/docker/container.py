"""A container without Docker: the image's last stage laid out in a folder, run as Docker would run it.

Where the base image would be there are this machine's own system and Python, for reading only. Everything
else is as docker/ says: the files that COPY takes, environment, user, working directory, command; a root file
system that nobody can write to, the tmpfs folders of the service, no capabilities, process 1 in a process
namespace of its own. It shares the machine's network, so that it reaches servers on the loopback.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evalhub.supervisor.programs import Program
from tests.architecture.sources import ROOT
from tests.docker.dockerfile import Stage, build_context
from tests.programs.processes import descendants, wait_for
from tests.programs.server import Server

SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/sbin")
# What programs ask for of /etc, where a build writes too.
ETC = (
    "passwd",
    "group",
    "shadow",
    "login.defs",
    "hosts",
    "nsswitch.conf",
    "ld.so.cache",
    "localtime",
)

ROOT_USER = "0:0"
_FIRST_LINES = {"web": "Booting worker", "worker": " ready.", "beat": "Starting..."}


class Image(NamedTuple):
    """A root folder, and what the Dockerfile says about running programs in it."""

    root: Path
    environment: dict[str, str]
    user: str
    folder: str


def built_image(stages: list[Stage], root: Path) -> Image:
    """Lay out what the stages copy into `/srv`, and the virtual environment of this machine."""
    builder, server = stages[-2], stages[-1]
    root.chmod(0o755)
    for place in ("opt/venv", "proc", "dev", "tmp", "run/secrets", "var/lib", "etc"):
        (root / place).mkdir(parents=True)
    for place in SYSTEM:
        _lay_system(root, Path(place))
    for name in ETC:
        if (Path("/etc") / name).exists():
            shutil.copy(Path("/etc") / name, root / "etc" / name)
    copy_context(builder, root)
    image = Image(
        root, server.environment, server.last("USER").arguments, server.last("WORKDIR").arguments
    )
    # Except what fetches packages: this machine's environment has the same ones.
    for run in [*builder.all("RUN"), *server.all("RUN")]:
        if " pip " not in run.arguments and "/pip " not in run.arguments:
            run_in(image._replace(user=ROOT_USER), ["sh", "-c", run.arguments], writable=True)
    return image


def copy_context(stage: Stage, root: Path) -> None:
    """Do what the COPY instructions of a stage do, with the files that reach a build."""
    context = build_context()
    for copy in stage.all("COPY"):
        *sources, target = copy.operands
        for source in sources:
            for path in context:
                if path != Path(source) and Path(source) not in path.parents:
                    continue
                below = path.name if path == Path(source) else str(path.relative_to(source))
                place = root / target.lstrip("/")
                if path != Path(source) or target.endswith("/"):
                    place = place / below
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, place)


def _lay_system(root: Path, place: Path) -> None:
    target = root / place.relative_to("/")
    if place.is_symlink():
        target.symlink_to(place.readlink())
    elif place.is_dir():
        target.mkdir()


def script(
    image: Image,
    command: Sequence[str],
    *,
    tmpfs: Sequence[str] = (),
    secrets: Path | None = None,
    writable: bool = False,
) -> str:
    """Return the shell commands that become `command` in the image."""
    root = shlex.quote(str(image.root))
    lines = ["set -e", "mount --make-rprivate /", f"mount --bind {root} {root}"]
    binds = {
        place: place for place in SYSTEM if not Path(place).is_symlink() and Path(place).is_dir()
    }
    binds |= {sys.base_prefix: sys.base_prefix, sys.prefix: "/opt/venv", "/dev": "/dev"}
    if secrets is not None:
        binds[str(secrets)] = "/run/secrets"
    for source, target in binds.items():
        inside = shlex.quote(f"{image.root}{target}")
        lines += [f"mkdir -p {inside}", f"mount --rbind {shlex.quote(source)} {inside}"]
        lines += [] if target == "/dev" else [f"mount -o remount,bind,ro {inside}"]
    if not writable:
        lines.append(f"mount -o remount,bind,ro {root}")
        for entry in tmpfs:
            place, _, options = entry.partition(":")
            lines.append(f"mount -t tmpfs -o {options or 'size=16m'} tmpfs {root}{place}")
    lines.append(f"mount -t proc proc {root}/proc")
    lines.append(as_user(image, command))
    return "\n".join(lines)


def as_user(image: Image, command: Sequence[str]) -> str:
    """Return a shell command that becomes `command` as the image's user in its root."""
    user, _, group = image.user.partition(":")
    drop = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs"]
    drop += ["--inh-caps=-all", "--bounding-set=-all"]
    if image.user == ROOT_USER:
        drop = []
    inside = f"cd {shlex.quote(image.folder)} && exec {shlex.join(command)}"
    return f"exec chroot {shlex.quote(str(image.root))} {shlex.join([*drop, 'sh', '-c', inside])}"


def namespaces(text: str) -> list[str]:
    """Return a command that runs a script with mounts and processes of its own."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", text]


def run_in(
    image: Image,
    command: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    tmpfs: Sequence[str] = (),
    secrets: Path | None = None,
    writable: bool = False,
) -> str:
    """Run a command to its end and return what it printed."""
    text = script(image, command, tmpfs=tmpfs, secrets=secrets, writable=writable)
    done = subprocess.run(
        namespaces(text),
        env={**image.environment, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Container(Server):
    """A service of docker/compose.yaml."""

    start_seconds = 120.0

    def __init__(
        self,
        folder: Path,
        image: Image,
        service: Mapping[str, Any],
        *,
        variables: Mapping[str, str],
        secrets: Path,
    ) -> None:
        super().__init__(folder, name=service["command"][-1])
        self.image, self.service, self.secrets = image, service, secrets
        self.first_line = _FIRST_LINES[self.log.stem]
        self.variables = {**image.environment, **service["environment"], **variables}

    def program(self) -> Program:
        text = script(
            self.image, self.service["command"], tmpfs=self.service["tmpfs"], secrets=self.secrets
        )
        return Program(self.log.stem, namespaces(text))

    def surroundings(self) -> Mapping[str, str]:
        return self.variables

    def is_ready(self) -> bool:
        """Ask by the health check of the service, where it has one."""
        check = self.service["healthcheck"]
        # Asking costs more than a glance at the log: not before there is something to ask.
        if self.first_line not in self.said or check.get("disable"):
            return self.first_line in self.said
        kind, *words = check["test"]
        return self.ends_well(["sh", "-c", *words] if kind == "CMD-SHELL" else words)

    def ends_well(self, command: Sequence[str]) -> bool:
        """Run a command beside the service, as `docker exec` does, and say whether it ended with 0."""
        if self.first_process is None:
            return False
        entered = ["nsenter", "--mount", "--pid", "--target", str(self.first_process)]
        done = subprocess.run(
            [*entered, "sh", "-c", as_user(self.image, command)],
            env=self.variables,
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    @property
    def first_process(self) -> int | None:
        """The process that is number 1 in there, by its number out here, if there is one."""
        born = [each for each in descendants(self.process.pid) if each.parent == self.process.pid]
        return born[0].pid if born else None

    def terminate(self) -> None:
        """Send SIGTERM to process 1, as Docker does."""
        if self.first_process is not None:
            os.kill(self.first_process, signal.SIGTERM)

    def stop(self) -> None:
        if self.is_running:
            self.terminate()
            wait_for(lambda: not self.is_running, 20)
        self.kill()
