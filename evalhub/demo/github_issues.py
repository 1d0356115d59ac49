"""Issues and comments of the stand-in for GitHub: kept in memory, as GitHub would answer about them."""

from typing import Any

from evalhub.demo.check_rules import LONGEST_TEXT_BYTES, JsonObject
from evalhub.demo.transcript import timestamp
from evalhub.runner import clock

_FIRST_COMMENT_ID = 9_000_001
_MOST_PER_PAGE = 100
_WRITABLE = {
    "title": str,
    "body": str,
    "labels": list,
    "state": str,
    "state_reason": str,
}


class Issues:
    """The issues of one repository, by number, and the comments of each."""

    def __init__(self) -> None:
        self.rows: dict[int, JsonObject] = {}
        self.comments: dict[int, list[JsonObject]] = {}

    def create(self, document: JsonObject) -> JsonObject:
        """Add an issue. Equal requests make two."""
        number = max(self.rows, default=0) + 1
        issue: JsonObject = {
            "id": 5_000_000 + number,
            "number": number,
            "state": "open",
            "title": document["title"],
            "body": document.get("body", ""),
            "labels": [{"name": name} for name in document.get("labels", [])],
            "created_at": timestamp(clock.now()),
        }
        self.rows[number] = issue
        self.comments[number] = []
        return issue

    def change(self, issue: JsonObject, document: JsonObject) -> JsonObject:
        """Apply a valid body to an issue."""
        issue.update(
            {name: document[name] for name in ("title", "body", "state") if name in document}
        )
        return issue

    def comment(self, number: int, text: str) -> JsonObject:
        """Add a comment. Equal requests make two."""
        taken = sum(len(rows) for rows in self.comments.values())
        comment: JsonObject = {
            "id": _FIRST_COMMENT_ID + taken,
            "body": text,
            "created_at": timestamp(clock.now()),
            "updated_at": timestamp(clock.now()),
        }
        self.comments[number].append(comment)
        return comment

    def listed(self, query: Any) -> list[JsonObject]:
        """Return a page of issues as the query asks for them."""
        rows = list(self.rows.values())
        if query.get("state", "open") != "all":
            rows = [row for row in rows if row["state"] == query.get("state", "open")]
        for label in filter(None, query.get("labels", "").split(",")):
            rows = [row for row in rows if {"name": label} in row["labels"]]
        if query.get("direction", "desc") == "desc":
            rows.reverse()
        return page_of(rows, query)


def page_of(rows: list[JsonObject], query: Any) -> list[JsonObject]:
    """Return the page of a list that the query asks for."""
    size = min(int(query.get("per_page", "30")), _MOST_PER_PAGE)
    start = (int(query.get("page", "1")) - 1) * size
    return rows[start : start + size]


def faults(document: object, *, is_new: bool) -> list[str]:
    """Return why GitHub would refuse to create (`is_new`) or change an issue with this body."""
    if not isinstance(document, dict):
        return ["The body is not a JSON object."]
    found = [
        f'"{name}" is not a permitted key or has a wrong type.'
        for name, value in document.items()
        if not isinstance(value, _WRITABLE.get(name, ()))
    ]
    if is_new and not document.get("title"):
        found.append('"title" wasn\'t supplied.')
    if document.get("state", "open") not in {"open", "closed"}:
        found.append('"state" is not open or closed.')
    return [*found, *text_faults(document.get("body", ""))]


def text_faults(text: object) -> list[str]:
    """Return why GitHub would refuse a text of an issue or comment."""
    if not isinstance(text, str) or len(text.encode()) > LONGEST_TEXT_BYTES:
        return [f"body is not a text of at most {LONGEST_TEXT_BYTES} bytes."]
    return []
