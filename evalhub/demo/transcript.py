"""The record of a run: what was said, asked and answered, turn by turn."""

import json
from datetime import datetime
from typing import Any

from evalhub.runner import clock

JsonObject = dict[str, Any]
AGENT_NAME = "payments-agent"


def timestamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Transcript:
    """Turns in order; each `add…` returns the number of its turn."""

    def __init__(self) -> None:
        self.turns: list[JsonObject] = []

    def add(self, role: str, kind: str, text: str | None, **fields: object) -> int:
        turn = {
            "turn": len(self.turns) + 1,
            "at": timestamp(clock.now()),
            "role": role,
            "kind": kind,
            "text": text,
            "agent": AGENT_NAME if role == "assistant" else None,
            **fields,
        }
        self.turns.append(turn)
        return len(self.turns)

    def say(self, text: str) -> int:
        """Add a message of the agent."""
        return self.add("assistant", "message", text)

    def add_call(self, name: str, arguments: JsonObject) -> int:
        """Add the call of a tool; its answer follows by `add_result`."""
        number = len(self.turns) + 1
        tool = {
            "name": name,
            "call_id": f"t-{number}",
            "arguments": json.dumps(arguments, ensure_ascii=False),
        }
        return self.add("assistant", "tool_call", None, tool=tool)

    def add_result(self, call: int, text: str, *, duration_ms: int, is_error: bool = False) -> int:
        """Add what the tool of turn `call` answered."""
        tool = {"name": self.turns[call - 1]["tool"]["name"], "call_id": f"t-{call}"}
        kind = "error" if is_error else "tool_result"
        return self.add("tool", kind, text, tool=tool, parent_turn=call, duration_ms=duration_ms)

    @property
    def calls(self) -> list[JsonObject]:
        return [turn for turn in self.turns if turn["kind"] == "tool_call"]

    def lines(self) -> str:
        return "".join(json.dumps(turn, ensure_ascii=False) + "\n" for turn in self.turns)
