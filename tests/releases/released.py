"""What earlier releases left behind: their rows, objects and migrations, as their own code made them.

`archives/<version>.tar.xz` holds `rows.json` and the folder `objects`; `pack_release.py` makes one.
"""

import json
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from django.apps.registry import Apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from django.db.models import Model

from tests.releases.pack_release import plain_value

RELEASES = sorted(Path(__file__).with_name("archives").glob("*.tar.xz"))
Row = dict[str, Any]


class Release(NamedTuple):
    """A release: which migrations it had applied, and the rows of each of its tables.

    A migration of ours has the digest of its file. `token` is a project's token in its plain form; its hash is among the rows.
    """

    version: str
    migrations: dict[tuple[str, str], str | None]
    tables: dict[str, list[Row]]
    token: str

    def apps(self) -> Apps:
        """Return the models as this release had them."""
        return self.state().apps

    def state(self) -> ProjectState:
        """Return what the migrations of this release say, without asking a database."""
        loader = MigrationLoader(None)
        nodes = loader.graph.node_map
        last = [
            key
            for key in self.migrations
            if not any(child.key in self.migrations for child in nodes[key].children)
        ]
        return loader.project_state(last)

    def migrate_to(self) -> None:
        """Bring an empty database to where this release had it."""
        executor = MigrationExecutor(connection)
        plan = [
            (migration, False)
            for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())
            if (migration.app_label, migration.name) in self.migrations
        ]
        executor.migrate([(m.app_label, m.name) for m, _ in plan], plan=plan)

    def migrate_back(self) -> None:
        """Undo every migration that came later, as when a new release is given up."""
        executor = MigrationExecutor(connection)
        later = [
            (migration, True)
            for migration, _ in reversed(
                executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
            )
            if (migration.app_label, migration.name) not in self.migrations
        ]
        executor.migrate([(m.app_label, m.name) for m, _ in later], plan=later)

    def insert(self) -> None:
        """Write all rows with the models of this release."""
        apps = self.apps()
        for label, rows in _parents_first(apps, self.tables):
            model = apps.get_model(label)
            model._default_manager.bulk_create(_instance(model, row) for row in rows)

    def stored_rows(self) -> dict[str, list[Row]]:
        """Read what the tables hold now, in the columns that this release knew."""
        apps = self.apps()
        return {
            label: [_plain(instance) for instance in apps.get_model(label).objects.order_by("pk")]
            for label in self.tables
        }


@lru_cache
def release_in(archive: Path) -> Release:
    with tarfile.open(archive) as tar:
        member = tar.extractfile("rows.json")
        assert member is not None
        document = json.load(member)
    return Release(
        document["release"],
        {(app, name): digest for app, name, digest in document["migrations"]},
        {table["model"]: table["rows"] for table in document["tables"]},
        document["token"],
    )


def unpack_objects(archive: Path, folder: Path) -> None:
    """Lay the objects of a release into `folder`."""
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.name.startswith("objects/")]
        tar.extractall(folder, members, filter="data")


def _parents_first(apps: Apps, tables: dict[str, list[Row]]) -> list[tuple[str, list[Row]]]:
    order = [model._meta.label_lower for model in _by_reference(apps)]
    return sorted(tables.items(), key=lambda table: order.index(table[0]))


def _by_reference(apps: Apps) -> list[type[Model]]:
    """Return all models, each after those that it refers to."""
    ordered: list[type[Model]] = []

    def add(model: type[Model]) -> None:
        for field in model._meta.concrete_fields:
            target = field.related_model
            if isinstance(target, type) and target is not model and target not in ordered:
                add(target)
        if model not in ordered:
            ordered.append(model)

    for model in apps.get_models(include_auto_created=True):
        add(model)
    return ordered


def _instance(model: type[Model], row: Row) -> Model:
    fields = model._meta.concrete_fields
    assert {field.attname for field in fields} == set(row)
    return model(**{field.attname: field.to_python(row[field.attname]) for field in fields})


def _plain(instance: Model) -> Row:
    """Return a row as JSON has it, and as `rows.json` holds it."""
    values = {f.attname: getattr(instance, f.attname) for f in instance._meta.concrete_fields}
    return json.loads(json.dumps(values, default=plain_value))  # type: ignore[no-any-return]
