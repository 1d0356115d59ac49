"""What GitHub's checks API takes and refuses, as far as evalhub writes it."""

import re
from datetime import datetime
from typing import Any

JsonObject = dict[str, Any]
CONCLUSIONS = frozenset(
    {"success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"}
)
STATUSES = frozenset({"queued", "in_progress", "completed"})
# Documented as characters, enforced in bytes.
LONGEST_TEXT_BYTES = 65_535
MOST_ANNOTATIONS = 50
_WRITABLE = frozenset(
    {
        "name",
        "head_sha",
        "details_url",
        "external_id",
        "status",
        "started_at",
        "conclusion",
        "completed_at",
        "output",
        "actions",
    }
)
_OUTPUT = frozenset({"title", "summary", "text", "annotations", "images"})
_ACTION_LIMITS = {"label": 20, "description": 40, "identifier": 20}


def faults(document: object, *, is_new: bool) -> list[str]:
    """Return why GitHub would refuse to create (`is_new`) or change a check run with this body."""
    if not isinstance(document, dict):
        return ["The body is not a JSON object."]
    permitted = _WRITABLE if is_new else _WRITABLE - {"head_sha"}
    found = [f'"{name}" is not a permitted key.' for name in sorted(document.keys() - permitted)]
    if is_new:
        found += [
            f'"{name}" wasn\'t supplied.' for name in ("name", "head_sha") if name not in document
        ]
    return [
        *found,
        *_plain_faults(document),
        *_state_faults(document),
        *_output_faults(document.get("output")),
        *_action_faults(document.get("actions", [])),
    ]


def _plain_faults(document: JsonObject) -> list[str]:
    found = [
        f"{name} is not a string with content."
        for name in ("name", "external_id", "details_url")
        if name in document and not _is_text(document[name])
    ]
    if "head_sha" in document and not _is_sha(document["head_sha"]):
        found.append("head_sha is not a commit's 40 hexadecimal digits.")
    url = document.get("details_url")
    if _is_text(url) and not str(url).startswith(("http://", "https://")):
        found.append("details_url is not an http or https address.")
    found += [
        f"{name} is not a time such as 2026-11-29T12:00:00Z."
        for name in ("started_at", "completed_at")
        if name in document and not _is_time(document[name])
    ]
    return found


def _state_faults(document: JsonObject) -> list[str]:
    status, conclusion = document.get("status"), document.get("conclusion")
    found = []
    if "status" in document and status not in STATUSES:
        found.append(f"status {status!r} is none of {', '.join(sorted(STATUSES))}.")
    if "conclusion" in document and conclusion not in CONCLUSIONS:
        found.append(f"conclusion {conclusion!r} is none of {', '.join(sorted(CONCLUSIONS))}.")
    if status == "completed" and conclusion is None:
        found.append("status completed needs a conclusion.")
    if "completed_at" in document and conclusion is None:
        found.append("completed_at needs a conclusion.")
    return found


def _output_faults(output: object) -> list[str]:
    if output is None:
        return []
    if not isinstance(output, dict):
        return ["output is not an object."]
    found = [f'"output.{name}" is not a permitted key.' for name in sorted(output.keys() - _OUTPUT)]
    found += [
        f'"output.{name}" wasn\'t supplied.'
        for name in ("title", "summary")
        if not _is_text(output.get(name))
    ]
    for name in ("summary", "text"):
        text = output.get(name)
        if isinstance(text, str) and len(text.encode()) > LONGEST_TEXT_BYTES:
            found.append(f"{name} exceeds a maximum bytesize of {LONGEST_TEXT_BYTES}")
    annotations = output.get("annotations", [])
    if not isinstance(annotations, list) or len(annotations) > MOST_ANNOTATIONS:
        found.append(f"output.annotations is no list of at most {MOST_ANNOTATIONS}.")
    return found


def _action_faults(actions: object) -> list[str]:
    if not isinstance(actions, list) or len(actions) > 3:
        return ["actions is no list of at most 3."]
    found = []
    for action in actions:
        for name, most in _ACTION_LIMITS.items():
            text = action.get(name) if isinstance(action, dict) else None
            if not isinstance(text, str) or not 0 < len(text) <= most:
                found.append(f"an action's {name} has from 1 to {most} characters.")
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_sha(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{40}", value) is not None


def _is_time(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False
