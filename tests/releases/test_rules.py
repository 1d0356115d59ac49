"""Old and new processes work on one schema while a release is rolled out: what a migration may do.

A change that the previous release cannot live with takes two releases: first the new form beside the
old one, then, in a migration whose name ends with `_second_step`, the end of the old one.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import pytest
from django.apps import apps
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from evalhub.schema_changes import AddIndexConcurrently, RemoveIndexConcurrently
from tests.architecture.sources import WINGS
from tests.releases.pack_release import digest_of
from tests.releases.released import RELEASES, release_in

SECOND_STEP = "_second_step"
_CONCURRENT = (AddIndexConcurrently, RemoveIndexConcurrently)
_LATEST = release_in(RELEASES[-1])
_RELEASED_TABLES = {model._meta.db_table for model in _LATEST.apps().get_models()}
_TWO_STEPS = (
    f"the release before cannot live with it: bring the new form first, release that, and end the "
    f"old one in a migration named …{SECOND_STEP}"
)


class Step(NamedTuple):
    """One operation of a migration, and the models right before and after it."""

    migration: Migration
    operation: Any
    before: ProjectState
    after: ProjectState

    @property
    def is_second_step(self) -> bool:
        return self.migration.name.endswith(SECOND_STEP)

    @property
    def touches_released_table(self) -> bool:
        """Whether the operation works on a table that the latest release already had."""
        name = getattr(self.operation, "model_name", None) or getattr(self.operation, "name", None)
        state = self.before.models.get((self.migration.app_label, str(name).lower()))
        return state is not None and _table(state) in _RELEASED_TABLES

    def field(self, state: ProjectState) -> "models.Field[Any, Any]":
        model = state.apps.get_model(self.migration.app_label, self.operation.model_name)
        return cast("models.Field[Any, Any]", model._meta.get_field(self.operation.name))


def _table(state: Any) -> str:
    return state.options.get("db_table") or f"{state.app_label}_{state.name_lower}"


def refuse_change_without_two_steps(step: Step) -> str | None:
    """Renamed, removed: what the previous release reads and writes is not there any more."""
    gone = (
        migrations.RemoveField,
        migrations.RenameField,
        migrations.RenameModel,
        migrations.DeleteModel,
        migrations.AlterModelTable,
        migrations.AlterUniqueTogether,
    )
    return _TWO_STEPS if isinstance(step.operation, gone) and not step.is_second_step else None


def refuse_required_column(step: Step) -> str | None:
    """The previous release inserts rows without a value for a column that it does not know."""
    if not isinstance(step.operation, migrations.AddField):
        return None
    field = step.operation.field
    if field.null or field.many_to_many or field.has_db_default() or field.generated:
        return None
    return "the release before inserts no value for it: give it db_default, or null=True"


def refuse_tighter_column(step: Step) -> str | None:
    """A column that takes less than before, or of another type."""
    if not isinstance(step.operation, migrations.AlterField) or step.is_second_step:
        return None
    old, new = step.field(step.before), step.field(step.after)
    if (old.null and not new.null) or (new.unique and not old.unique):
        return _TWO_STEPS
    if old.db_type(connection) == new.db_type(connection):
        return None
    if isinstance(old, models.CharField) and isinstance(new, models.CharField | models.TextField):
        widened = new.max_length is None or new.max_length >= (old.max_length or 0)
        return None if widened else _TWO_STEPS
    return "it writes the whole table anew under a lock: add a column beside it instead"


def refuse_new_constraint(step: Step) -> str | None:
    """It looks at every row under a lock, and the previous release may break it."""
    wanted = isinstance(step.operation, migrations.AddConstraint) and not step.is_second_step
    return _TWO_STEPS if wanted else None


def refuse_index_under_lock(step: Step) -> str | None:
    """Nobody writes to a table while its index is built."""
    plain = isinstance(step.operation, migrations.AddIndex | migrations.RemoveIndex)
    if not plain or isinstance(step.operation, _CONCURRENT):
        return None
    return "writers wait for it: use evalhub.schema_changes in a migration with atomic = False"


def refuse_mixed_concurrent_work(step: Step) -> str | None:
    """What is not done in one transaction is repeated as a whole, so it does one thing only."""
    if not isinstance(step.operation, _CONCURRENT):
        return None
    others = [o for o in step.migration.operations if not isinstance(o, _CONCURRENT)]
    if step.migration.atomic or others:
        return "it stands in a migration of its own, with atomic = False"
    return None


RULES: list[Callable[[Step], str | None]] = [
    refuse_change_without_two_steps,
    refuse_required_column,
    refuse_tighter_column,
    refuse_new_constraint,
    refuse_index_under_lock,
    refuse_mixed_concurrent_work,
]


def _newer_steps() -> Iterator[Step]:
    """Yield what was added to our rooms since the latest release, in the order of migrating."""
    loader = MigrationLoader(None)
    plan = loader.graph._generate_plan(loader.graph.leaf_nodes(), at_end=True)
    state = ProjectState()
    for key in plan:
        migration = loader.get_migration(*key)
        is_ours = apps.get_app_config(key[0]).name.split(".")[0] in WINGS
        for operation in migration.operations:
            before = state.clone()
            operation.state_forwards(migration.app_label, state)
            if is_ours and key not in _LATEST.migrations:
                yield Step(migration, operation, before, state.clone())


def _faults(steps: Iterator[Step]) -> list[str]:
    return [
        f"{step.migration}: {step.operation.describe()}: {fault}"
        for step in steps
        if step.touches_released_table
        for fault in (rule(step) for rule in RULES)
        if fault is not None
    ]


def test_newer_migrations_let_the_previous_release_work() -> None:
    assert _faults(_newer_steps()) == []


def test_second_steps_come_a_release_after_the_first() -> None:
    """A second step names the first one as `first_step`, and an earlier release had that."""
    unreleased = [
        str(step.migration)
        for step in _newer_steps()
        if step.is_second_step
        and getattr(step.migration, "first_step", None) not in _LATEST.migrations
    ]

    assert unreleased == []


def test_released_migrations_stay_as_they_were() -> None:
    ours = {key: digest for key, digest in _LATEST.migrations.items() if digest is not None}

    assert len(ours) > 5
    assert {key: digest_of(*key) for key in ours} == ours


def _step(operation: Operation, *, name: str = "0009_change", atomic: bool = True) -> Step:
    """Return an operation on a table of the latest release, as `_newer_steps` would."""
    body = {"atomic": atomic, "operations": [operation]}
    migration = type("Migration", (Migration,), body)(name, "evidence_store")
    before = _LATEST.state()
    after = before.clone()
    operation.state_forwards("evidence_store", after)
    return Step(migration, operation, before, after)


_INDEX = models.Index(name="run_by_code", fields=["code"])
_CHECK = models.CheckConstraint(name="run_has_an_epoch", condition=models.Q(epoch__gte=1))


@pytest.mark.parametrize(
    "operation",
    [
        migrations.RenameField("run", "code", "reason"),
        migrations.RemoveField("run", "code"),
        migrations.DeleteModel("score"),
        migrations.RenameModel("run", "execution"),
        migrations.AddField("run", "note", models.CharField(max_length=9, default="")),
        migrations.AddField("run", "note", models.IntegerField()),
        migrations.AlterField("run", "code", models.CharField(max_length=200)),
        migrations.AlterField("run", "code", models.CharField(max_length=100, null=True)),
        migrations.AlterField("run", "epoch", models.BigIntegerField()),
        migrations.AlterField("run", "scenario", models.CharField(max_length=200, unique=True)),
        migrations.AddConstraint("run", _CHECK),
        migrations.AddIndex("run", _INDEX),
        migrations.RemoveIndex("run", "run_of_plan"),
        AddIndexConcurrently("run", _INDEX),
    ],
    ids=lambda operation: operation.describe(),
)
def test_rules_refuse_what_hurts_the_previous_release(operation: Operation) -> None:
    assert len(_faults(iter([_step(operation)]))) == 1


@pytest.mark.parametrize(
    "step",
    [
        lambda: _step(migrations.AddField("run", "note", models.IntegerField(db_default=0))),
        lambda: _step(migrations.AddField("run", "note", models.IntegerField(null=True))),
        lambda: _step(
            migrations.AlterField("run", "code", models.CharField(max_length=300, null=True))
        ),
        lambda: _step(AddIndexConcurrently("run", _INDEX), atomic=False),
        lambda: _step(migrations.RemoveField("run", "code"), name="0009_code_second_step"),
        lambda: _step(
            migrations.CreateModel("Note", [("id", models.BigAutoField(primary_key=True))])
        ),
    ],
)
def test_rules_let_pass_what_does_no_harm(step: Callable[[], Step]) -> None:
    assert _faults(iter([step()])) == []
