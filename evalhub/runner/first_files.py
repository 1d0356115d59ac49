"""The files that `evalhub init` writes: suite, policy, what runs one scenario, the workflow."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from evalhub.protocol.canonical import bytes_digest
from evalhub.runner.documents import parsed, read_file
from evalhub.runner.errors import InputError

SCENARIO_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".md", ".txt"})
_MOST_SCENARIOS = 10_000
# Each by commit: a tag can be moved to other code, which would run with the job's identity.
_CHECKOUT = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2"
_PYTHON = "actions/setup-python@0b93645e9fea7318ecaed2b359559ac225c90a2b # v5.3.0"
_UPLOAD = "actions/upload-artifact@b4b15b8c7c6ac21ea08fcf65892d2ee8f75cf882 # v4.4.3"
_DOWNLOAD = "actions/download-artifact@fa0a91b85d4f404e444e00e005971372dc801d16 # v4.1.8"


class Setting(NamedTuple):
    """What the files are made for."""

    url: str
    project: str
    folder: str
    suite: str
    subject: str
    model: str
    agent: str
    epochs: int
    default_branch: str
    has_publisher: bool
    """Whether CI's jobs speak by their identity; else by a token in the repository's secrets."""
    requirement: str
    """What `pip install` is to install."""


def suite_document(name: str, *, root: Path, top: Path) -> dict[str, Any]:
    """Return the suite that the scenario files below `root` make; their paths are told from `top`.

    The folder of a file is its category and its name its id, unless the file itself says `category`
    and `id`.

    Raises:
        InputError: if there is none, a file is no YAML or JSON, or two have one id.
    """
    files = scenario_files(root)
    if not files:
        raise InputError(
            f"{root} has no scenario files; expected one file for each scenario"
            f" ({', '.join(sorted(SCENARIO_SUFFIXES))}) in folders by category."
        )
    scenarios = [_scenario(path, root=root, top=top) for path in files]
    repeated = [name for name, count in Counter(s["id"] for s in scenarios).items() if count > 1]
    if repeated:
        raise InputError(
            f"{root} has several scenarios named {', '.join(sorted(repeated)[:5])}; give each file a"
            " name of its own, or an `id` in it."
        )
    return {
        "schema": "evalhub.suite/1",
        "name": name,
        "version": "1",
        "scenarios": sorted(scenarios, key=lambda scenario: str(scenario["id"])),
    }


def scenario_files(root: Path) -> list[Path]:
    found = (path for path in sorted(root.rglob("*")) if path.suffix in SCENARIO_SUFFIXES)
    files = [
        path
        for path in found
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    if len(files) > _MOST_SCENARIOS:
        raise InputError(f"{root} has {len(files)} files; expected at most {_MOST_SCENARIOS}.")
    return files


def _scenario(path: Path, *, root: Path, top: Path) -> dict[str, Any]:
    data = read_file(path, what="scenario")
    told: Any = {}
    if path.suffix in {".yaml", ".yml", ".json"}:
        told = parsed(data, path=path, what="scenario")
    said = told if isinstance(told, dict) else {}
    folders = path.relative_to(root).parts[:-1]
    return {
        "id": str(said.get("id") or path.stem),
        "category": str(said.get("category") or "-".join(folders) or "general"),
        # Runs pair with those of the baseline only while this is the same.
        "digest": bytes_digest(data),
        "file": path.resolve().relative_to(top.resolve()).as_posix(),
    }


def suite_text(document: dict[str, Any]) -> str:
    head = (
        "# Written by `evalhub init` from the scenario files. When one changes, so must its digest:\n"
        "# `evalhub init --overwrite` writes this file anew.\n"
    )
    return head + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


POLICY = """\
# What the gate demands. It counts as it stands on the default branch: a pull request that edits it
# is still judged by the one before. `evalhub policy check FILE --suite FILE` explains it in words.
schema: evalhub.policy/1
rubrics:
  # Did the agent do what the scenario asks? 1 or 0, from `scores` of result.json.
  # min_effect is the smallest drop that matters, here 10 points of the pass rate.
  resolved: {kind: binary, direction: higher_is_better, min_effect: 0.10, gate: block, from: result}
  # How long a run takes at its slowest. It warns; `gate: block` once it has been watched for a while.
  latency_s: {kind: tail, q: 0.95, rel_tol: 0.20, abs_tol: 1.0, gate: warn, from: result}
# Of a hundred unchanged agents, at most five are stopped.
alpha: 0.05
# How much of the evidence may be absent before the verdict says that it does not know.
max_missing: 0.05
max_unmeasured: 0.05
# What "not enough data to tell" means, by the event that asked.
inconclusive: {pull_request: neutral, merge_group: action_required, push: action_required, schedule: action_required}
# What lanes must prove that they did not share. What your lanes can report, claim: exclusive or equal.
isolation: {machine: not_claimed, world: not_claimed, mcp_session: not_claimed, credential: not_claimed, pool: not_claimed, seed: not_claimed, canary: not_claimed}
# What must be known to be well before anything scarce is used (`evalhub plan build --guard`).
guards: {required: []}
# llm_emulated, sandboxed_interactive, containerized or live: at least so real.
environment: {minimum_tier: llm_emulated}
# true: the first complete plan of the default branch is the baseline; false: a maintainer adopts it.
baseline: {auto_adopt: false}
# A maintainer may accept a named regression, visibly, for so many days.
waivers: {allowed: true, max_days: 14}
"""

RUN_SCENARIO = '''\
"""Run the agent on one scenario. `evalhub lane run` starts this once for each run of the plan.

It finds the scenario in EVALHUB_SCENARIO_FILE and the model in EVALHUB_MODEL, and writes into
EVALHUB_RUN_DIR: `result.json`, and `transcript.ndjson` line by line while the agent works.
"""

import json
import os
import time
from pathlib import Path

folder = Path(os.environ["EVALHUB_RUN_DIR"])
task = Path(os.environ["EVALHUB_SCENARIO_FILE"]).read_text()
began = time.monotonic()


def note(turn: int, role: str, text: str) -> None:
    with (folder / "transcript.ndjson").open("a") as file:
        file.write(json.dumps({"turn": turn, "role": role, "kind": "message", "text": text}) + "\\n")


note(1, "user", task)
# TODO: call the agent, note what it says and does, and look whether the task is done.
is_resolved = None

seconds = round(time.monotonic() - began, 3)
if is_resolved is None:
    # Not measured: never a pass, and no fault of the agent.
    result = {"outcome": "setup_error", "error": {"origin": "setup", "type": "NotConnected",
              "message": "run_scenario.py does not call the agent yet."}}
else:
    result = {"outcome": "passed" if is_resolved else "failed",
              "scores": {"resolved": float(is_resolved), "latency_s": seconds}}
(folder / "result.json").write_text(json.dumps(result))
'''

EXAMPLE_SCENARIO = """\
# One file is one scenario: the folder is its category, the file's name its id.
task: Say hello to the customer.
expect: The answer greets the customer.
"""


def workflow_text(setting: Setting) -> str:
    """Return the workflow: plan, lanes as a matrix, gather."""
    text = _WORKFLOW
    for name, value in {
        "@URL@": setting.url,
        "@PROJECT@": setting.project,
        "@FOLDER@": setting.folder,
        "@BRANCH@": setting.default_branch,
        "@ARM@": f"candidate={setting.subject}:{setting.model}",
        "@EPOCHS@": str(setting.epochs),
        "@AGENT@": setting.agent,
        "@INSTALL@": setting.requirement,
        "@TOKEN@": ""
        if setting.has_publisher
        else "  EVALHUB_TOKEN: ${{ secrets.EVALHUB_TOKEN }}\n",
        "@ID_TOKEN@": ", id-token: write" if setting.has_publisher else "",
        "@CHECKOUT@": _CHECKOUT,
        "@PYTHON@": _PYTHON,
        "@UPLOAD@": _UPLOAD,
        "@DOWNLOAD@": _DOWNLOAD,
    }.items():
        text = text.replace(name, value)
    return text


_WORKFLOW = """\
# Written by `evalhub init`. The plan says what should run, each lane runs its part, gather says what it means.
name: evalhub
on:
  pull_request:
  merge_group:
  push: {branches: ["@BRANCH@"]}
  workflow_dispatch:
permissions: {}
env:
  EVALHUB_URL: "@URL@"
@TOKEN@  EVALHUB_SPOOL: spool
jobs:
  plan:
    # Jobs of forks get neither identity nor secrets: push a reviewed change to a branch of this repository.
    if: github.event_name != 'pull_request' || github.event.pull_request.head.repo.full_name == github.repository
    runs-on: ubuntu-latest
    permissions: {contents: read@ID_TOKEN@}
    outputs:
      lanes: ${{ steps.register.outputs.lanes }}
      digest: ${{ steps.register.outputs.digest }}
    steps:
      - uses: @CHECKOUT@
        with: {fetch-depth: 2, persist-credentials: false}
      - uses: @PYTHON@
        with: {python-version: "3.12"}
      - run: python -m pip install "@INSTALL@"
      - name: Register suite and policy, from the default branch alone
        if: github.event_name == 'push'
        run: |
          evalhub suite put "@FOLDER@/suite.yaml" --project "@PROJECT@"
          evalhub policy put "@FOLDER@/policy.yaml" --project "@PROJECT@"
      - name: Take the policy in force, not the one of this checkout
        run: evalhub policy get --project "@PROJECT@" --out policy.base.json
      - id: register
        run: |
          evalhub plan build --project "@PROJECT@" --suite "@FOLDER@/suite.yaml" --policy policy.base.json --arm "@ARM@" --epochs @EPOCHS@ --tier llm_emulated --out plan.json
          evalhub plan check plan.json --policy policy.base.json
          evalhub plan register plan.json --json > registered.json
          python -c 'import json; told = json.load(open("registered.json")); print("lanes=" + json.dumps([lane["name"] for lane in told["lanes"]])); print("digest=" + told["digest"])' >> "$GITHUB_OUTPUT"
      - uses: @UPLOAD@
        with: {name: evalhub-plan, path: plan.json, overwrite: true}
  lane:
    needs: plan
    runs-on: ubuntu-latest
    permissions: {contents: read@ID_TOKEN@}
    strategy:
      fail-fast: false
      matrix:
        lane: ${{ fromJSON(needs.plan.outputs.lanes) }}
    steps:
      - uses: @CHECKOUT@
        with: {persist-credentials: false}
      - uses: @PYTHON@
        with: {python-version: "3.12"}
      - run: python -m pip install "@INSTALL@"
      - uses: @DOWNLOAD@
        with: {name: evalhub-plan}
      - name: Run this lane's scenarios and send their evidence
        env: {LANE: "${{ matrix.lane }}"}
        run: |
          evalhub lane run --plan plan.json --lane "$LANE" -- @AGENT@
      - name: Keep what was not sent (`evalhub push` delivers it later)
        if: failure()
        uses: @UPLOAD@
        with: {name: "evalhub-spool-${{ matrix.lane }}", path: spool, overwrite: true, if-no-files-found: ignore}
  gather:
    needs: [plan, lane]
    if: always() && needs.plan.result == 'success'
    runs-on: ubuntu-latest
    permissions: {contents: read@ID_TOKEN@}
    env: {DIGEST: "${{ needs.plan.outputs.digest }}"}
    steps:
      - uses: @PYTHON@
        with: {python-version: "3.12"}
      - run: python -m pip install "@INSTALL@"
      - run: evalhub plan close "$DIGEST"
      - run: evalhub verdict "$DIGEST" --wait 600
"""
