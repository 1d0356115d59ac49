"""What docker/ promises, as far as its files say it: nothing here needs Docker."""

import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalhub.supervisor.programs import WEB_GRACE_SECONDS
from tests.architecture.sources import ROOT
from tests.architecture.test_documentation import README
from tests.docker.compose import FOLDER, PROGRAMS, Json, compose, duration
from tests.docker.dockerfile import Stage, build_context, stages

DOCUMENT = compose(EVALHUB_HOST="evalhub.example.com")
SERVICES: dict[str, Json] = DOCUMENT["services"]
DOCKERFILES = {name: stages(FOLDER / name) for name in ("Dockerfile", "simulator.Dockerfile")}
SERVER, SIMULATOR = (DOCKERFILES[name][-1] for name in DOCKERFILES)
MANIFESTS: list[Json] = [
    document
    for path in sorted((FOLDER / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

every_dockerfile = pytest.mark.parametrize("found", DOCKERFILES.values(), ids=DOCKERFILES)
every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


# The images


@every_dockerfile
def test_copied_files_are_committed_and_reach_the_build(found: list[Stage]) -> None:
    context = build_context()
    copies = [each for stage in found for each in stage.all("COPY") if "from" not in each.flags]

    sources = [source for copy in copies for source in copy.operands[:-1]]

    assert sources
    assert [
        s for s in sources if not any(p == Path(s) or Path(s) in p.parents for p in context)
    ] == []


def test_nothing_private_reaches_a_build() -> None:
    assert {"secrets", "data", ".env", ".git", "tests"}.isdisjoint(
        part for path in build_context() for part in path.parts
    )


@every_dockerfile
def test_packages_come_by_their_digests_and_ready_made(found: list[Stage]) -> None:
    runs = [run.arguments for stage in found for run in stage.all("RUN")]
    installs = [line for run in runs for line in run.split("&&") if "pip install" in line]

    assert installs
    for line in installs:
        assert "--no-index" in line or (
            "--require-hashes" in line and "--only-binary=:all:" in line
        )
    assert not re.search(r"apt-get|gcc|curl|wget", " ".join(runs))


@every_dockerfile
def test_last_stage_is_a_small_one_without_root(found: list[Stage]) -> None:
    last = found[-1]

    assert len(found) > 1
    assert [stage.base for stage in found if stage.name == "environment"] == [last.base]
    debian = last.base.rpartition("-")[2]
    assert all(stage.base.endswith(f"-{debian}") for stage in found)
    assert re.fullmatch(r"python:\d+\.\d+-slim-\w+", last.base)
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", last.last("USER").arguments)
    assert {copy.flags["from"] for copy in last.all("COPY")} <= {"environment", "postgres"}
    assert f'image.version="{VERSION}"' in last.last("LABEL").arguments
    (check,) = last.all("HEALTHCHECK")
    assert 'CMD ["python", ' in check.arguments


def test_python_of_the_images_is_one_that_is_tested() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]

    assert SERVER.base.startswith(f"python:{wanted.removeprefix('>=')}-")


def test_dumps_are_made_by_the_version_of_the_server() -> None:
    (postgres,) = [stage for stage in DOCKERFILES["Dockerfile"] if stage.name == "postgres"]

    assert postgres.base.startswith(SERVICES["postgres"]["image"] + "-")
    target = SERVER.all("COPY")[0].operands[-1]
    assert SERVER.environment["EVALHUB_POSTGRES_BIN"] == target
    assert f"exec {target}/bin/" in postgres.last("RUN").arguments


def test_compose_builds_and_runs_what_the_images_say() -> None:
    for service, stage in (("web", SERVER), ("simulator", SIMULATOR)):
        assert SERVICES[service]["command"] == stage.last("CMD").words
        assert SERVICES[service]["user"] == stage.last("USER").arguments
        assert SERVICES[service]["image"].endswith(f":{VERSION}")
    check = SERVER.last("HEALTHCHECK").arguments.partition("CMD ")[2]
    assert SERVICES["web"]["healthcheck"]["test"] == ["CMD", *yaml.safe_load(check)]
    port = SERVER.last("EXPOSE").arguments
    assert SERVER.environment["EVALHUB_BIND"] == f"0.0.0.0:{port}"
    assert SERVICES["web"]["environment"]["EVALHUB_BIND"] == f"0.0.0.0:{port}"


# compose.yaml


def test_compose_file_is_one() -> None:
    schema = ["--builtin-schema", "vendor.compose-spec", str(FOLDER / "compose.yaml")]
    command = [str(Path(sys.executable).parent / "check-jsonschema"), *schema]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


@every_service
def test_service_is_locked_in(service: Json) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert set(service.get("cap_add", ())) <= {"NET_BIND_SERVICE"}
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "cpus", "pids_limit"} <= set(service)
    assert not service.get("privileged")
    assert all(each.split(":")[1].startswith("size=") for each in service["tmpfs"])


@every_service
def test_health_is_looked_at_or_left_out_by_name(service: Json) -> None:
    check = service.get("healthcheck")
    # An image of ours brings its own.
    assert check is not None or service.get("build") is not None
    if check is not None and not check.get("disable"):
        assert duration(check["timeout"]) <= duration(check["interval"])


@every_service
def test_service_waits_for_what_it_needs(service: Json) -> None:
    waited_for = service.get("depends_on", {})

    for name, how in waited_for.items():
        wanted = {"service_healthy", "service_completed_successfully"}
        assert how["condition"] in wanted
        assert how["condition"] != "service_healthy" or "test" in SERVICES[name]["healthcheck"]


def test_only_the_proxy_is_reached_from_outside() -> None:
    open_ports = {
        name: [port for port in service.get("ports", ()) if not port.startswith("127.0.0.1:")]
        for name, service in SERVICES.items()
    }

    assert {name for name, ports in open_ports.items() if ports} == {"proxy"}
    assert DOCUMENT["networks"]["back"] == {"internal": True}
    for name in ("postgres", "redis", "s3", "migrate", "backup"):
        assert SERVICES[name]["networks"] == ["back"]


def test_no_password_is_written_down(tmp_path: Path) -> None:
    script = tmp_path / "make-secrets.sh"
    script.write_bytes((FOLDER / "make-secrets.sh").read_bytes())
    subprocess.run(["sh", str(script)], check=True)
    made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    subprocess.run(["sh", str(script)], check=True)

    again = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    by_hand = {"github_token", "email_url"}
    assert again == made
    assert set(made) == set(DOCUMENT["secrets"])
    assert all(len(text) >= 20 for name, text in made.items() if name not in by_hand)
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    assert made["postgres_password"] in made["database_url"]
    assert made["redis_conf"].split()[1] in made["broker_url"]
    for name, secret in DOCUMENT["secrets"].items():
        assert secret == {"file": f"./secrets/{name}"}
    used = chain.from_iterable(service.get("secrets", ()) for service in SERVICES.values())
    assert set(used) == set(DOCUMENT["secrets"])


@pytest.mark.parametrize("program", [*PROGRAMS, "migrate"])
def test_programs_are_told_settings_that_there_are(program: str) -> None:
    table = set(re.findall(r"^\| `((?:EVALHUB_|DATABASE_|CELERY_)\w+)` \|", README, re.MULTILINE))
    told = set(SERVICES[program]["environment"]) - {"PGOPTIONS"}

    assert {name.removesuffix("_FILE") for name in told} <= table
    files = {v for k, v in SERVICES[program]["environment"].items() if k.endswith("_FILE")}
    assert files == {f"/run/secrets/{name}" for name in SERVICES[program]["secrets"]}


def test_programs_have_time_to_end() -> None:
    granted = {name: duration(SERVICES[name]["stop_grace_period"]) for name in PROGRAMS}

    assert granted["web"].total_seconds() >= WEB_GRACE_SECONDS + 5
    assert all(time.total_seconds() >= 10 for time in granted.values())
    assert all(SERVICES[name]["init"] is True for name in PROGRAMS)


def test_without_a_host_nothing_starts() -> None:
    with pytest.raises(KeyError, match="EVALHUB_HOST"):
        compose()


def test_proxy_takes_what_the_server_takes() -> None:
    caddy = (FOLDER / "Caddyfile").read_text()
    (web_port,) = re.findall(r"^\s*port (\d+)$", caddy, re.MULTILINE)
    largest = int(re.findall(r"max_size (\d+)MiB", caddy)[0])

    assert SERVICES["web"]["environment"]["EVALHUB_BIND"].endswith(f":{web_port}")
    assert re.search(r"^\s*name web$", caddy, re.MULTILINE)
    # Settings: the largest document is 32 MiB.
    assert largest > 32
    assert f"request_buffers {largest}MiB" in caddy


# kubernetes/


def of_kind(kind: str) -> dict[str, Json]:
    """Return the objects of a kind by their names."""
    return {each["metadata"]["name"]: each for each in MANIFESTS if each["kind"] == kind}


def pod(name: str) -> Json:
    match name:
        case "migrate":
            spec = of_kind("Job")["migrate-" + VERSION.replace(".", "-")]["spec"]
        case "backup":
            spec = of_kind("CronJob")["backup"]["spec"]["jobTemplate"]["spec"]
        case _:
            spec = of_kind("Deployment")[name]["spec"]
    found: Json = spec["template"]["spec"]
    return found


def first(name: str) -> Json:
    container: Json = pod(name)["containers"][0]
    return container


every_pod = pytest.mark.parametrize("program", [*PROGRAMS, "migrate", "backup"])


@every_pod
def test_pods_run_what_compose_runs(program: str) -> None:
    assert first(program)["command"] == SERVICES[program]["command"]
    tmpfs = {entry.split(":")[0] for entry in SERVICES[program]["tmpfs"]}
    mounted = {mount["mountPath"] for mount in first(program)["volumeMounts"]}
    volumes = {volume.split(":")[1] for volume in SERVICES[program].get("volumes", ())}
    assert mounted == tmpfs | volumes | {"/run/secrets"}
    if program in PROGRAMS:
        granted = pod(program)["terminationGracePeriodSeconds"]
        assert granted >= duration(SERVICES[program]["stop_grace_period"]).total_seconds()


def test_pods_are_told_what_compose_tells() -> None:
    told = of_kind("ConfigMap")["evalhub"]["data"]

    assert set(told) == set(SERVICES["web"]["environment"])
    same = {name for name in told if name.endswith(("_FILE", "_THREADS", "_CONCURRENCY", "_BIND"))}
    assert {name: told[name] for name in same} == {
        name: SERVICES["web"]["environment"][name] for name in same
    }


@every_pod
def test_pods_are_locked_in(program: str) -> None:
    spec = pod(program)
    uid = int(SERVER.last("USER").arguments.split(":")[0])

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == uid
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    for container in [*spec["containers"], *spec.get("initContainers", ())]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["envFrom"] == [{"configMapRef": {"name": "evalhub"}}]


def test_probes_ask_what_the_server_answers() -> None:
    web = first("web")
    (port,) = web["ports"]
    probes: dict[str, Any] = {
        kind: web[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")
    }

    assert f":{port['containerPort']}" in SERVICES["web"]["environment"]["EVALHUB_BIND"]
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    allowed = of_kind("ConfigMap")["evalhub"]["data"]["EVALHUB_ALLOWED_HOSTS"].split(",")
    for probe in probes.values():
        assert probe["port"] == port["name"]
        assert probe["httpHeaders"][0]["value"] in allowed
    assert (
        first("worker")["livenessProbe"]["exec"]["command"][-1]
        == (SERVICES["worker"]["healthcheck"]["test"][1])
    )


def test_a_web_server_is_always_there() -> None:
    deployment = of_kind("Deployment")["web"]["spec"]

    assert deployment["replicas"] == SERVICES["web"]["deploy"]["replicas"] >= 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert {"web", "worker"} == set(of_kind("PodDisruptionBudget"))
    assert of_kind("Deployment")["beat"]["spec"]["strategy"] == {"type": "Recreate"}
    pause = int(first("web")["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod("web")["terminationGracePeriodSeconds"] >= pause + WEB_GRACE_SECONDS


def test_selectors_find_their_pods() -> None:
    labels = [
        each["spec"]["template"]["metadata"]["labels"] for each in of_kind("Deployment").values()
    ]
    selectors = [
        *(each["spec"]["selector"] for each in of_kind("Service").values()),
        *(
            each["spec"]["selector"]["matchLabels"]
            for each in of_kind("PodDisruptionBudget").values()
        ),
        *(each["spec"]["selector"]["matchLabels"] for each in of_kind("Deployment").values()),
    ]

    assert [selector for selector in selectors if selector not in labels] == []
    (ingress,) = of_kind("Ingress").values()
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend["name"] in of_kind("Service")


def test_kustomization_lists_every_file() -> None:
    (listing,) = [each for each in MANIFESTS if each["kind"] == "Kustomization"]

    there = {path.name for path in (FOLDER / "kubernetes").glob("*.yaml")}
    assert {*listing["resources"], "kustomization.yaml"} == there
    assert listing["images"][0]["newTag"] == VERSION
