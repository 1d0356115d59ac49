"""Static files that installed packages carry outside a `static` folder."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plotly
from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage

_SCRIPT = "plotly.min.js"
_STYLES = "plotly.css"
# The script holds its style rules as an object that it writes into a <style> element, which our
# content security policy forbids: {"X,X div":"direction:ltr;…", …}, X for a chart, Y for a notice.
_RULES = re.compile(r'\{("X,X div":.*?)\};for\(', re.DOTALL)
_RULE = re.compile(r"""(?:"([^"]+)"|(\w+)):(?:"([^"]*)"|'([^']*)')""")


class PlotlyFinder(BaseFinder):
    """Serves the plotly.js that the Python package `plotly` carries, and its style rules as a file.

    `plotly/plotly.min.js` is the package's own file; `plotly/plotly.css` is derived from it, below
    the data directory, so that the two always belong together.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.scripts = _storage(Path(plotly.__file__).parent / "package_data")
        self.styles = _storage(settings.DATA_DIR / "plotly")

    def find(self, path: str, find_all: bool = False) -> Any:  # noqa: FBT001, FBT002 - Django's
        """Return where the file lies; a list of places if `find_all`, and an empty one if nowhere."""
        match path:
            case "plotly/plotly.min.js":
                found = [self.scripts.path(_SCRIPT)]
            case "plotly/plotly.css":
                found = [self._derived_styles()]
            case _:
                found = []
        # Django takes None for a match: only an empty list says that there is none.
        return found[0] if found and not find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[tuple[str, Storage]]:
        self._derived_styles()
        yield _SCRIPT, self.scripts
        yield _STYLES, self.styles

    def _derived_styles(self) -> str:
        script = Path(self.scripts.path(_SCRIPT))
        styles = Path(self.styles.path(_STYLES))
        if not styles.exists() or styles.stat().st_mtime < script.stat().st_mtime:
            styles.parent.mkdir(parents=True, exist_ok=True)
            fresh = styles.with_suffix(f".{os.getpid()}")
            fresh.write_text(plotly_styles(script.read_text()))
            fresh.replace(styles)
        return str(styles)


def plotly_styles(script: str) -> str:
    """Return the style rules that plotly.js would insert, as a stylesheet.

    Raises:
        ValueError: if the script does not hold them in the form of plotly.js 4.
    """
    rules = _RULES.search(script)
    if rules is None:
        raise ValueError("this plotly.js does not hold its style rules where plotly.js 4 does")
    pairs = [
        (quoted or bare, double or single)
        for quoted, bare, double, single in _RULE.findall(rules[1])
    ]
    # Each rule is inserted before the ones that are there, so the last one stands first.
    return "".join(f"{_selector(name)}{{{text}}}\n" for name, text in reversed(pairs))


def _selector(name: str) -> str:
    return name.replace("X", ".js-plotly-plot .plotly").replace("Y", ".plotly-notifier")


def _storage(folder: Path) -> FileSystemStorage:
    storage = FileSystemStorage(location=folder)
    # Read by collectstatic: the folder below which the files land.
    storage.prefix = "plotly"  # type: ignore[attr-defined]
    return storage
