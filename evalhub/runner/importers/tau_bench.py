"""tau-bench's result files (sierra-research/tau-bench, `run.py`): a JSON list of `EnvRunResult`.

What becomes of each field:

- `task_id`: scenario id `task-<id>`. The scenario's digest covers `info.task` alone (user, wanted
  actions, instruction, outputs), never what the agent did with it.
- `trial`: the records of one task, ordered by trial and file, are its epochs 1, 2, …; the trial's own
  number is kept in `result.extra.trial`.
- the first system message names the domain ("# Airline Agent Policy"): the category, and the suite
  `tau-bench-<domain>`. Without one the domain is `unknown`.
- `reward`: score `reward` as it is, and `resolved` 1 or 0 for exactly 1 or less. Outcome `passed` where
  resolved, else `failed`.
- `info.error` (tau-bench writes it with reward 0 when anything raised, a rate limit too):
  `infra_error`, because the file does not say whose doing it was; no scores.
- `traj`: the transcript, message by message. An assistant's text and each of its tool calls are turns
  of their own; names, call ids, arguments and results are taken as they stand (arguments that a file
  holds as an object become its JSON text). Scores `turns` and
  `tool_calls` count them.
- `info.user_cost` (US dollars that the simulated user cost, by LiteLLM's price table): `usage` of role
  `user`. The agent's own cost, times and model are not in the file: they stay null, the model is what
  `--arm` says.
- `info.reward_info` goes to `result.extra`, the task to the attachment `task.json`.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

from evalhub.protocol.canonical import document_digest
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.runner.documents import JsonObject
from evalhub.runner.errors import InputError
from evalhub.runner.importers.records import ImportedResults, ImportedRun, SourceFile

_DOMAIN = re.compile(r"^#\s*(\w[\w-]*)\s+agent policy", re.IGNORECASE)
_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}

_POLICY: JsonObject = {
    "schema": "evalhub.policy/1",
    "rubrics": {
        "resolved": {
            "kind": "binary",
            "direction": "higher_is_better",
            "min_effect": 0.1,
            "gate": "block",
            "from": "result",
        },
        "turns": {
            "kind": "continuous",
            "direction": "lower_is_better",
            "min_effect": 5,
            "gate": "info",
            "value_type": "count",
            "from": "result",
        },
    },
    # A result file says nothing about the machines that made it.
    "isolation": dict.fromkeys(
        ("machine", "world", "mcp_session", "credential", "pool", "seed", "canary"), "not_claimed"
    ),
    "guards": {"required": [], "max_age_minutes": 60},
    "environment": {"minimum_tier": "llm_emulated", "minimum_match_rate": None},
}


class _Theirs(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class _Function(_Theirs):
    name: str
    arguments: str | dict[str, Any] | None = None


class _ToolCall(_Theirs):
    id: str | None = None
    function: _Function


class _Message(_Theirs):
    role: str
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    name: str | None = None
    tool_call_id: str | None = None


class _Run(_Theirs):
    task_id: int | str
    reward: float
    info: dict[str, Any]
    traj: list[_Message]
    trial: int = 0


class _Runs(RootModel[Annotated[list[_Run], Field(min_length=1)]]):
    pass


def read_results(files: Sequence[SourceFile]) -> ImportedResults:
    """Return the runs of one agent in some result files of tau-bench.

    Raises:
        InputError: that names the file, the place in it, what stood there and what was expected.
    """
    runs = [run for file in files for run in _runs_of(file)]
    domain = _domain(runs)
    tasks = _tasks(runs)
    return ImportedResults(
        suite=_suite(tasks, domain),
        policy=_POLICY,
        subject=f"tau-bench-{domain}-agent",
        model="unknown",
        # The user is a model, but tools act on a database of the run's own.
        tier="sandboxed_interactive",
        runs=_with_epochs(runs, tasks),
    )


def _runs_of(file: SourceFile) -> list[_Run]:
    try:
        # A single run is written without the list.
        is_list = file.data.lstrip()[:1] == b"["
        return parse_document(_Runs, file.data if is_list else b"[" + file.data + b"]").root
    except DocumentError as error:
        raise InputError(f"{file.path} is no result file of tau-bench: {error}") from None


def _domain(runs: Sequence[_Run]) -> str:
    texts = (m.content for run in runs for m in run.traj[:1] if m.role == "system")
    match = next((m for m in (_DOMAIN.match(text or "") for text in texts) if m), None)
    return match[1].lower() if match else "unknown"


def _tasks(runs: Sequence[_Run]) -> dict[str, JsonObject]:
    tasks: dict[str, JsonObject] = {}
    for run in runs:
        task = run.info.get("task")
        if task is None:
            continue
        known = tasks.setdefault(str(run.task_id), task)
        if known != task:
            raise InputError(
                f"Task {run.task_id} is defined in two ways by these files; "
                "expected results of one version of the tasks."
            )
    for run in runs:
        if str(run.task_id) not in tasks:
            raise InputError(
                f"Task {run.task_id} has no `info.task` in any of these files, so its definition is "
                "unknown; give a file in which that task ran without an error too."
            )
    return tasks


def _suite(tasks: dict[str, JsonObject], domain: str) -> JsonObject:
    try:
        scenarios = [
            {"id": f"task-{task_id}", "category": domain, "digest": document_digest(task)}
            for task_id, task in sorted(tasks.items(), key=lambda item: _by_number(item[0]))
        ]
    except DocumentError as error:
        raise InputError(f"A task's definition has no digest: {error}") from None
    # The files carry no version: the tasks' own digests tell versions apart.
    version = document_digest(scenarios).removeprefix("sha256:")[:12]
    return {
        "schema": "evalhub.suite/1",
        "name": f"tau-bench-{domain}",
        "version": version,
        "scenarios": scenarios,
    }


def _with_epochs(runs: Sequence[_Run], tasks: dict[str, JsonObject]) -> list[ImportedRun]:
    runs_of_task: dict[str, list[_Run]] = defaultdict(list)
    for run in runs:
        runs_of_task[str(run.task_id)].append(run)
    return [
        _imported(run, epoch=epoch, task=tasks[task_id])
        for task_id in sorted(runs_of_task, key=_by_number)
        for epoch, run in enumerate(sorted(runs_of_task[task_id], key=lambda r: r.trial), 1)
    ]


def _by_number(task_id: str) -> tuple[int, str]:
    return (int(task_id) if task_id.isdecimal() else -1, task_id)


def _imported(run: _Run, *, epoch: int, task: JsonObject) -> ImportedRun:
    turns = _turns(run)
    return ImportedRun(
        scenario=f"task-{run.task_id}",
        epoch=epoch,
        result=_result(run, turns),
        turns=turns,
        files={"task.json": json.dumps(task, ensure_ascii=False, indent=1).encode()},
    )


def _result(run: _Run, turns: Sequence[JsonObject]) -> JsonObject:
    extra = {
        "task_id": run.task_id,
        "trial": run.trial,
        "reward_info": run.info.get("reward_info"),
        "source": run.info.get("source"),
    }
    if "error" in run.info:
        error = {"origin": "unknown", "type": "tau-bench", "message": str(run.info["error"])}
        extra["traceback"] = run.info.get("traceback")
        return {"outcome": "infra_error", "scores": {}, "error": error, "extra": extra}
    resolved = run.reward == 1
    return {
        "outcome": "passed" if resolved else "failed",
        "scores": {
            "resolved": float(resolved),
            "reward": run.reward,
            "turns": len(turns),
            "tool_calls": sum(turn["kind"] == "tool_call" for turn in turns),
        },
        "usage": _usage(run.info.get("user_cost")),
        "extra": extra,
    }


def _usage(user_cost: object) -> list[JsonObject]:
    if not isinstance(user_cost, int | float) or isinstance(user_cost, bool) or user_cost < 0:
        return []
    return [
        {
            "role": "user",
            "model": "unknown",
            "cost_microusd": round(user_cost * 1_000_000),
            "cost_source": "price_table",
        }
    ]


def _turns(run: _Run) -> list[JsonObject]:
    turns: list[JsonObject] = []
    for message in run.traj:
        turns += [{"turn": len(turns) + i, **turn} for i, turn in enumerate(_of(message), 1)]
    return turns


def _of(message: _Message) -> list[JsonObject]:
    role = _ROLES.get(message.role)
    if role is None:
        raise InputError(
            f"A message has the role {message.role!r}; expected one of {', '.join(_ROLES)}."
        )
    if role == "tool":
        tool = {"name": message.name or "unknown", "call_id": message.tool_call_id}
        return [{"role": role, "kind": "tool_result", "text": message.content, "tool": tool}]
    calls = message.tool_calls or []
    said = [] if message.content is None and calls else [message.content]
    return [{"role": role, "kind": "message", "text": text} for text in said] + [
        {
            "role": role,
            "kind": "tool_call",
            "text": None,
            "tool": {
                "name": call.function.name,
                "call_id": call.id,
                "arguments": _arguments(call.function.arguments),
            },
        }
        for call in calls
    ]


def _arguments(arguments: str | dict[str, Any] | None) -> str | None:
    if arguments is None or isinstance(arguments, str):
        return arguments
    return json.dumps(arguments, ensure_ascii=False)
