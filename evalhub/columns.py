"""Columns of a row as JSON, and back: for copies of what rows know, in any room."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import Field, Model
from pydantic import JsonValue

from evalhub.protocol.scalars import rfc3339

Columns = Mapping[str, JsonValue]


class ColumnError(ValueError):
    """A copy holds a value that its column does not take."""


def columns_of(row: Model, *, besides: Collection[str]) -> dict[str, JsonValue]:
    """Return the columns of a row but its key, its relations and those named in `besides`."""
    return {
        field.name: _as_json(field.value_from_object(row))
        for field in row._meta.concrete_fields  # noqa: SLF001 - Django's public name
        if not (field.primary_key or field.is_relation or field.name in besides)
    }


def column_values(model: type[Model], columns: Columns) -> dict[str, Any]:
    """Return the values of a copy's columns; those that the model does not have are left out.

    Raises:
        ColumnError: if a value is none of its column.
    """
    fields = {name: _field(model, name) for name in columns}
    values = {}
    for name, field in fields.items():
        if field is None:
            continue
        try:
            values[name] = field.to_python(columns[name])
        except ValidationError as error:
            raise ColumnError(f"{name} was {columns[name]!r}: {error.messages[0]}") from error
    return values


def _field(model: type[Model], name: str) -> "Field[Any, Any] | None":
    try:
        field = model._meta.get_field(name)  # noqa: SLF001
    except FieldDoesNotExist:
        return None
    if not isinstance(field, Field) or field.is_relation or field.primary_key:
        return None
    return field


def _as_json(value: object) -> JsonValue:
    if isinstance(value, datetime):
        return rfc3339(value)
    if value is None or isinstance(value, str | int | float | list | dict):
        return value
    raise TypeError(f"{value!r} has no form in JSON; give it one here")
