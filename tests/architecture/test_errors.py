"""Foreseen errors: each has a status and a code of its own, so that a client can tell them apart."""

import pkgutil
from collections import Counter
from collections.abc import Iterator
from importlib import import_module

from evalhub.web.errors import DomainError
from tests.architecture.sources import WINGS

LOADED_WHERE_CONFIGURED = {"lanes.projects.views.github"}
"""Needs models of an app that is installed only then; it raises errors of its room's operations."""


def _error_classes(parent: type[DomainError] = DomainError) -> Iterator[type[DomainError]]:
    for child in parent.__subclasses__():
        yield child
        yield from _error_classes(child)


def _all_errors() -> list[type[DomainError]]:
    for wing in WINGS:
        package = import_module(wing)
        for module in pkgutil.walk_packages(package.__path__, f"{wing}."):
            is_apart = "migrations" in module.name or "runner" in module.name
            if not is_apart and module.name not in LOADED_WHERE_CONFIGURED:
                import_module(module.name)
    own = {error for error in _error_classes() if error.__module__.split(".")[0] in WINGS}
    return sorted(own, key=lambda error: (error.__module__, error.__qualname__))


def test_each_error_has_a_status_and_a_code_of_its_own() -> None:
    errors = _all_errors()

    assert len(errors) > 10
    unnamed = [error.__qualname__ for error in errors if "code" not in vars(error)]
    assert unnamed == []
    shared = Counter(error.code for error in errors)
    assert {code: n for code, n in shared.items() if n > 1} == {}
    assert [error.__qualname__ for error in errors if not 400 <= error.status < 600] == []
