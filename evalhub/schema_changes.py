"""Changes of a schema that other processes go on using meanwhile, for migrations of all rooms."""

from typing import Any

from django.db import NotSupportedError, migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import Index, Model


class AddIndexConcurrently(migrations.AddIndex):
    """Add an index to a table in use: PostgreSQL builds it beside the writers, SQLite at once.

    Its migration says `atomic = False` and does nothing else, so that it can be repeated.
    """

    atomic = False

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: Any,
        to_state: Any,
    ) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            _add(schema_editor, model, self.index)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: Any,
        to_state: Any,
    ) -> None:
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            _remove(schema_editor, model, self.index)

    def describe(self) -> str:
        return f"{super().describe()}, beside its writers"


class RemoveIndexConcurrently(migrations.RemoveIndex):
    """Remove an index from a table in use, without making writers wait behind long readers.

    Its migration says `atomic = False` and does nothing else, so that it can be repeated.
    """

    atomic = False

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: Any,
        to_state: Any,
    ) -> None:
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            state = from_state.models[app_label, self.model_name_lower]
            _remove(schema_editor, model, state.get_index_by_name(self.name))

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: Any,
        to_state: Any,
    ) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            state = to_state.models[app_label, self.model_name_lower]
            _add(schema_editor, model, state.get_index_by_name(self.name))

    def describe(self) -> str:
        return f"{super().describe()}, beside its writers"


def _add(editor: BaseDatabaseSchemaEditor, model: type[Model], index: Index) -> None:
    if not _is_concurrent(editor):
        editor.add_index(model, index)
        return
    # What an interrupted build left under this name is no index that anyone can use.
    editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {editor.quote_name(index.name)}")
    editor.add_index(model, index, concurrently=True)  # type: ignore[call-arg]  # PostgreSQL's takes it


def _remove(editor: BaseDatabaseSchemaEditor, model: type[Model], index: Index) -> None:
    if _is_concurrent(editor):
        editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {editor.quote_name(index.name)}")
    else:
        editor.remove_index(model, index)


def _is_concurrent(editor: BaseDatabaseSchemaEditor) -> bool:
    """Return whether the database builds indexes beside writers.

    Raises:
        NotSupportedError: if it does, but not inside the transaction that is open.
    """
    if editor.connection.vendor != "postgresql":
        return False
    if editor.connection.in_atomic_block:
        raise NotSupportedError("an index is built beside writers only where `atomic = False`")
    return True
