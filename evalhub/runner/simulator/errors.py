"""What the payments world says when it refuses a request."""

from collections.abc import Sequence
from typing import Any

JsonObject = dict[str, Any]


class ApiError(Exception):
    """A refusal in the API's own form: status and an `error` object."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        details: JsonObject | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.code = code
        self.param = param
        self.details = details or {}

    def body(self) -> JsonObject:
        error: JsonObject = {"type": self.kind, "message": self.message, **self.details}
        if self.code is not None:
            error["code"] = self.code
            page = self.code.replace("_", "-")
            error["doc_url"] = f"https://stripe.com/docs/error-codes/{page}"
        if self.param is not None:
            error["param"] = self.param
        return {"error": error}


def unknown_parameters(names: Sequence[str]) -> ApiError:
    word = "parameter" if len(names) == 1 else "parameters"
    return ApiError(
        f"Received unknown {word}: {', '.join(names)}", code="parameter_unknown", param=names[0]
    )


def missing_parameter(name: str) -> ApiError:
    return ApiError(f"Missing required param: {name}.", code="parameter_missing", param=name)


def missing_object(noun: str, key: str, *, param: str, status: int) -> ApiError:
    """Refuse an id that names nothing: 404 when it stands in the path, 400 in a parameter."""
    return ApiError(f"No such {noun}: '{key}'", status=status, code="resource_missing", param=param)
