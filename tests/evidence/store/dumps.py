"""Tables as text, with rows named by what they are instead of by their keys."""

import json
from typing import Any

from django.apps import apps
from django.db.models import ForeignKey, Model

from evidence.store.operations.reindex import DERIVED

# When this server last saw an object is nothing that a lane or a person said.
SEEN = {"receipt_stored_at", "stored_at", "gone_at", "finished_at", "is_counted"}
_NAMES: dict[str, tuple[str, ...]] = {
    "lanes_projects.Project": ("name",),
    "lanes_plans.PolicyVersion": ("project", "digest"),
    "lanes_plans.Plan": ("digest",),
    "lanes_plans.Lane": ("plan", "name"),
    "lanes_plans.Attempt": ("key",),
    "lanes_budget.Pool": ("project", "name"),
    "evidence_store.Removal": ("key",),
    "evidence_store.Segment": ("attempt", "seq"),
    "evidence_store.Run": ("attempt", "scenario", "arm", "epoch"),
    "evidence_store.Item": ("attempt", "path"),
}


def dumped_tables(labels: tuple[str, ...] = DERIVED) -> dict[str, list[str]]:
    """Return every row of some tables with all its columns but its key, in an order of their own."""
    return {label: dumped_rows(label) for label in labels}


def dumped_rows(label: str) -> list[str]:
    model = apps.get_model(label)
    relations = [f.name for f in model._meta.concrete_fields if isinstance(f, ForeignKey)]
    rows = model._default_manager.select_related(*relations).all()
    return sorted(json.dumps(_columns(row), default=str, sort_keys=True) for row in rows)


def _columns(row: Model) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for field in row._meta.concrete_fields:
        value = getattr(row, field.name)
        if field.primary_key:
            continue
        if isinstance(value, Model):
            value = _name(value)
        columns[field.name] = value is not None if field.name in SEEN else value
    return columns


def _name(row: Model) -> list[Any]:
    values = (getattr(row, name) for name in _NAMES[row._meta.label])
    return [_name(value) if isinstance(value, Model) else value for value in values]


def drop_rows(labels: tuple[str, ...] = DERIVED) -> None:
    """Delete every row of some tables, whatever refers to what."""
    for label in reversed(labels):
        rows = apps.get_model(label)._default_manager.all()
        rows._raw_delete(rows.db)
