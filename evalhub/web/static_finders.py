"""Static files that installed packages carry outside a `static` folder."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plotly
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage

_SCRIPT = "plotly.min.js"


class PlotlyFinder(BaseFinder):
    """Serves the plotly.js that the Python package `plotly` carries, as `plotly/plotly.min.js`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        folder = Path(plotly.__file__).parent / "package_data"
        self.storage = FileSystemStorage(location=folder)
        # Read by collectstatic: the folder below which the files land.
        self.storage.prefix = "plotly"  # type: ignore[attr-defined]

    def find(self, path: str, find_all: bool = False) -> Any:  # noqa: FBT001, FBT002 - Django's
        """Return where the script lies; a list of places if `find_all`, as Django asks for it."""
        found = [self.storage.path(_SCRIPT)] if path == f"plotly/{_SCRIPT}" else []
        return found if find_all else next(iter(found), None)

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[tuple[str, Storage]]:
        yield _SCRIPT, self.storage
