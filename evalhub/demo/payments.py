"""A small client of the payments world, on the standard library: quick to import."""

import json
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode, urlsplit

JsonObject = dict[str, Any]
_SECONDS = 10


class SimulatorGoneError(Exception):
    """The payments world does not answer: nothing can be said about the agent."""


class Reply(NamedTuple):
    """What the world answered: the text as it came, and the same parsed."""

    status: int
    text: str
    data: JsonObject

    @property
    def is_refusal(self) -> bool:
        return self.status >= 400


class Payments:
    """One connection to one lane's world, for a `with` block."""

    def __init__(self, url: str, key: str) -> None:
        address = urlsplit(url)
        self._connection = HTTPConnection(
            address.hostname or "", address.port or 80, timeout=_SECONDS
        )
        self._key = key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def request(self, method: str, path: str, parameters: Mapping[str, object]) -> Reply:
        """Send one request, form-encoded.

        Raises:
            SimulatorGoneError: if no whole answer comes.
        """
        encoded = urlencode({name: str(value) for name, value in parameters.items()})
        headers = {"Authorization": f"Bearer {self._key}"}
        body = None
        if method == "POST":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = encoded
        elif encoded:
            path = f"{path}?{encoded}"
        try:
            self._connection.request(method, path, body=body, headers=headers)
            answer = self._connection.getresponse()
            text = answer.read().decode()
        except (OSError, HTTPException) as error:
            raise SimulatorGoneError(
                f"The payments world did not answer {method} {path}: {error!r}"
            ) from error
        return Reply(answer.status, text, json.loads(text))

    def rows(self, path: str) -> Iterator[JsonObject]:
        """Yield every row of a list, page by page."""
        parameters: dict[str, object] = {"limit": 100}
        while True:
            page = self.request("GET", path, parameters).data
            yield from page["data"]
            if not page["has_more"]:
                return
            parameters["starting_after"] = page["data"][-1]["id"]
