"""Where files are to lie, also before the folders are made."""

from pathlib import Path


def standing_part(path: Path) -> Path:
    """Return the path, or the nearest of its parents that exists."""
    return next(one for one in (path, *path.parents) if one.exists())
