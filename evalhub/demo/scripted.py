"""The demo agent: it follows a scenario's steps by real requests, without any model.

It has two weaknesses, both of them visible in its transcript. Sometimes it is impatient and reads
only the first page of a list. And it can be given a defect, for a candidate that is worse.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evalhub.demo.payments import JsonObject, Payments, Reply
from evalhub.demo.transcript import Transcript

PAGE = 20
DEFECTS: Mapping[str, str] = {
    "refunds": "ignores the amount and refunds in full",
    "lookups": "forgets the filter and takes what comes first",
    "payments": "leaves out the last step",
    "customers": "forgets the filter and takes what comes first",
    "memory": "does not write notes",
}
_REFERENCE = re.compile(r"\{([a-z]+)(?:\.([a-z_.]+)|\|(count|orders))?\}")


class Habits(NamedTuple):
    """How the agent works in this run; `defect` is a key of `DEFECTS`, or None."""

    is_impatient: bool
    defect: str | None


class Ending(NamedTuple):
    """How a run ended: the last answer, and why the agent gave up, if it did."""

    answer: str
    given_up: str | None


class _GaveUpError(Exception):
    """The agent cannot go on; the message is what it tells the user."""


@dataclass
class ScriptedAgent:
    """Works through steps; `notes` is its memory, None where it may keep none."""

    payments: Payments
    transcript: Transcript
    habits: Habits
    notes: Path | None
    known: dict[str, Any] = field(default_factory=dict)
    answer: str = ""

    def work(self, task: str, steps: Sequence[JsonObject]) -> Ending:
        """Do the task; every request and every word goes into the transcript.

        Raises:
            SimulatorGoneError: if the payments world does not answer.
        """
        self.transcript.add("user", "message", task)
        try:
            for step in self._chosen(steps):
                self._take(step)
        except _GaveUpError as reason:
            self.answer = f"I could not do this: {reason}"
            self.transcript.say(self.answer)
            return Ending(self.answer, str(reason))
        return Ending(self.answer, None)

    def _chosen(self, steps: Sequence[JsonObject]) -> list[JsonObject]:
        calls = [step for step in steps if "call" in step]
        if self.habits.defect != "payments" or not calls:
            return list(steps)
        left_out = calls[-1]
        # What the left-out step would have found is not known to the answer either.
        return [step for step in steps if step is not left_out and "answer" not in step] + [
            {"answer": "All done."}
        ]

    def _take(self, step: JsonObject) -> None:
        if "why" in step and not (self.habits.defect == "memory" and "remember" in step):
            self.transcript.say(step["why"])
        match step:
            case {"answer": text}:
                self.answer = self._filled(text)
                self.transcript.say(self.answer)
            case {"remember": facts}:
                self._remember(facts)
            case {"session": text}:
                # A new conversation: only the notes are left of the last one.
                self.known.clear()
                self.transcript.add("user", "message", text, extra={"session": 2})
            case {"as": name}:
                self.known[name] = self._learned(step)
            case _:
                raise ValueError(f"no step of this agent: {step}")

    def _learned(self, step: JsonObject) -> Any:
        match step:
            case {"find": path}:
                return self._found(path, step)
            case {"list": path}:
                return self._listed(path, step)
            case {"recall": name}:
                return self._recalled(name)
            case _:
                return self._called(step["call"], step)

    # Lists

    def _found(self, path: str, step: JsonObject) -> JsonObject:
        wanted = {name: self._value(value) for name, value in step["where"].items()}
        if self._forgets_filters():
            rows = self._page(path, {}).data["data"]
            if rows:
                return dict(rows[0])
            raise _GaveUpError(f"{path} is empty.")
        parameters = self._parameters(step)
        for page in self._pages(path, parameters):
            for row in page:
                if all(part_of(row, name) == value for name, value in wanted.items()):
                    return row
        described = ", ".join(f"{name} {value}" for name, value in wanted.items())
        raise _GaveUpError(f"there is nothing with {described} in the list that I read.")

    def _listed(self, path: str, step: JsonObject) -> list[JsonObject]:
        if self._forgets_filters():
            return list(self._page(path, {}).data["data"])
        pages = self._pages(path, self._parameters(step))
        return [row for page in pages for row in page]

    def _pages(self, path: str, parameters: JsonObject) -> list[list[JsonObject]]:
        pages: list[list[JsonObject]] = []
        cursor: JsonObject = {}
        while True:
            reply = self._page(path, {**parameters, **cursor})
            pages.append(reply.data["data"])
            if not reply.data["has_more"] or self.habits.is_impatient:
                return pages
            cursor = {"starting_after": pages[-1][-1]["id"]}

    def _page(self, path: str, parameters: JsonObject) -> Reply:
        reply = self._send("GET", path, {**parameters, "limit": PAGE})
        if reply.is_refusal:
            raise _GaveUpError(reply.data["error"]["message"])
        return reply

    def _forgets_filters(self) -> bool:
        return self.habits.defect in {"lookups", "customers"}

    # Single requests

    def _called(self, line: str, step: JsonObject) -> JsonObject:
        method, path = line.split(" ", 1)
        parameters = self._parameters(step)
        if self.habits.defect == "refunds" and path == "/v1/refunds":
            parameters.pop("amount", None)
        reply = self._send(method, self._filled(path), parameters)
        if not reply.is_refusal:
            return reply.data
        error: JsonObject = reply.data["error"]
        if step.get("refusal") == "go on":
            return error
        raise _GaveUpError(error["message"])

    def _send(self, method: str, path: str, parameters: JsonObject) -> Reply:
        call = self.transcript.add_call(f"{method} {path}", parameters)
        begun = time.monotonic()
        reply = self.payments.request(method, path, parameters)
        took = round((time.monotonic() - begun) * 1000)
        self.transcript.add_result(call, reply.text, duration_ms=took, is_error=reply.is_refusal)
        return reply

    def _parameters(self, step: JsonObject) -> JsonObject:
        return {name: self._value(value) for name, value in step.get("with", {}).items()}

    # Notes

    def _remember(self, facts: JsonObject) -> None:
        if self.habits.defect == "memory":
            return
        call = self.transcript.add_call("write_note", facts)
        if self.notes is None:
            self.transcript.add_result(
                call, "Memory is off in this lane.", duration_ms=0, is_error=True
            )
            return
        self.notes.write_text(json.dumps(facts, ensure_ascii=False))
        self.transcript.add_result(call, f"noted in {self.notes.name}", duration_ms=0)

    def _recalled(self, name: str) -> JsonObject:
        call = self.transcript.add_call("read_notes", {"about": name})
        kept = self.notes is not None and self.notes.exists()
        facts: JsonObject = json.loads(self.notes.read_text()) if self.notes and kept else {}
        self.transcript.add_result(call, json.dumps(facts, ensure_ascii=False), duration_ms=0)
        if name not in facts:
            raise _GaveUpError(f"my notes say nothing about the {name}.")
        return facts

    # References such as {order.id}

    def _value(self, value: object) -> object:
        return self._filled(value) if isinstance(value, str) else value

    def _filled(self, text: str) -> str:
        return _REFERENCE.sub(self._referred, text)

    def _referred(self, match: re.Match[str]) -> str:
        name, dotted, summary = match.groups()
        value = self.known[name]
        if summary == "count":
            return str(len(value))
        if summary == "orders":
            numbers = [part_of(row, "metadata.order") for row in value]
            return ", ".join(sorted(str(number) for number in numbers)) or "none"
        # A forgotten filter leads to other rows: what they lack, the agent calls unknown.
        found = part_of(value, dotted) if dotted else value
        return "unknown" if found is None else str(found)


def part_of(row: Mapping[str, Any], dotted: str) -> Any:
    """Return the part that a dotted name leads to, None where there is none.

    >>> part_of({"metadata": {"order": "A-1"}}, "metadata.order")
    'A-1'
    """
    value: Any = row
    for name in dotted.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
