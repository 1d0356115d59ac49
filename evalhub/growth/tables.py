"""Many rows into tables at once, past models: their constraints are the database's, and hold."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.core.management.color import no_style
from django.db import connection, models
from django.db.models import Max

Row = tuple[Any, ...]


def moment(at: datetime) -> str:
    """Return a time as both databases take it in a text."""
    return at.replace(tzinfo=None).isoformat(" ")


class Table:
    """Rows of one model that are not written yet. Ids are given out here, so that others can refer."""

    def __init__(self, model: type[models.Model], columns: str) -> None:
        self.model = model
        self.name = model._meta.db_table  # noqa: SLF001 - Django documents it
        self.written = 0
        self._names = ["id", *columns.split()]
        newest: int | None = models.QuerySet(model).aggregate(newest=Max("pk"))["newest"]
        self._id = newest or 0
        self._rows: list[Row] = []

    def add(self, *values: Any) -> int:
        """Keep a row, its values in the order of the columns; return its id.

        Values are texts, numbers, truth values and None: what both databases read alike.
        """
        self._id += 1
        self._rows.append((self._id, *values))
        return self._id

    def count(self) -> int:
        """Return how many rows there are by now."""
        return models.QuerySet(self.model).count()

    def write(self) -> None:
        """Insert what was kept. To be called in a transaction."""
        rows, self._rows = self._rows, []
        name = connection.ops.quote_name(self.name)
        names = ", ".join(connection.ops.quote_name(column) for column in self._names)
        with connection.cursor() as cursor:
            if not hasattr(cursor, "copy"):
                values = ", ".join(["%s"] * len(self._names))
                cursor.executemany(f"INSERT INTO {name} ({names}) VALUES ({values})", rows)  # noqa: S608
            else:
                # psycopg's own way for many rows takes a tenth of the time.
                with cursor.copy(f"COPY {name} ({names}) FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)
        self.written += len(rows)


def follow_with_sequences(tables: Sequence[Table]) -> None:
    """Let the database go on behind the ids that were given out here."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [t.model for t in tables]):
            cursor.execute(statement)
