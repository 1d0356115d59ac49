"""Lists: newest first, filtered, paged by cursor."""

from collections.abc import Mapping

from evalhub.runner.simulator.errors import ApiError, JsonObject, missing_object

DEFAULT_PAGE = 10


def page_of(
    table: Mapping[str, JsonObject], given: JsonObject, *, noun: str, url: str
) -> JsonObject:
    """Return one page of the rows that match every filter in `given`.

    Every name in `given` other than the cursor's and `created` must equal the row's field of that
    name, so a filter is applied or its parameter was refused before: nothing in between.

    Raises:
        ApiError: if a cursor names no row of this list, or both cursors are given.
    """
    filters = dict(given)
    limit = filters.pop("limit", DEFAULT_PAGE)
    after, before = filters.pop("starting_after", None), filters.pop("ending_before", None)
    if after is not None and before is not None:
        raise ApiError(
            "Received both starting_after and ending_before: give one of them.",
            param="ending_before",
        )
    created = filters.pop("created", None)
    rows = [row for row in table.values() if _matches(row, filters) and _is_within(row, created)]
    rows.sort(key=lambda row: (row["created"], row["id"]), reverse=True)
    if before is not None:
        rows = rows[: _position(rows, before, noun=noun, param="ending_before")]
        return _page(rows[-limit:], has_more=len(rows) > limit, url=url)
    if after is not None:
        rows = rows[_position(rows, after, noun=noun, param="starting_after") + 1 :]
    return _page(rows[:limit], has_more=len(rows) > limit, url=url)


def _page(rows: list[JsonObject], *, has_more: bool, url: str) -> JsonObject:
    return {"object": "list", "data": rows, "has_more": has_more, "url": url}


def _matches(row: JsonObject, filters: JsonObject) -> bool:
    return not row.get("deleted") and all(row[name] == value for name, value in filters.items())


def _is_within(row: JsonObject, created: object) -> bool:
    if created is None:
        return True
    at: int = row["created"]
    if not isinstance(created, dict):
        return at == created
    lowest = max(created.get("gt", at - 1) + 1, created.get("gte", at))
    highest = min(created.get("lt", at + 1) - 1, created.get("lte", at))
    return bool(lowest <= at <= highest)


def _position(rows: list[JsonObject], key: str, *, noun: str, param: str) -> int:
    for position, row in enumerate(rows):
        if row["id"] == key:
            return position
    raise missing_object(noun, key, param=param, status=400)
