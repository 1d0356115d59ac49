"""Where spools lie: in a folder, in folders of it, or in the ZIP file that CI made of them."""

import hashlib
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from evalhub.runner.errors import InputError

# A downloaded artifact has the folders above the spool as well.
_DEEPEST_FOLDER = 8
_LINK = stat.S_IFLNK
# File systems take 255 bytes; percent-encoding makes up to twelve of one character.
_LONGEST_NAME = 180


def spools_in(folder: Path, *, report: Callable[[str], None]) -> list[Path]:
    """Return the spool that a folder is, or those that lie in it; of a ZIP file, those in it.

    Raises:
        InputError: if there is none.
    """
    place = _unpacked(folder, report) if folder.is_file() else folder
    found = sorted(found_spools(place))
    if not found:
        raise InputError(
            f"{folder} holds no spool; expected the folder that `evalhub lane run --spool` wrote, "
            "a folder of such, or a ZIP file of it. (CI leaves hidden folders out of an artifact "
            "unless it is told otherwise.)"
        )
    return found


def found_spools(folder: Path, *, depth: int = 0) -> Iterator[Path]:
    """Yield the spools in a folder. What lies inside of one is the agent's, and none."""
    if (folder / "lane.json").is_file():
        yield folder
        return
    if depth == _DEEPEST_FOLDER:
        return
    try:
        with os.scandir(folder) as entries:
            folders = [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        # Not there (yet), or not for us: no spool that anybody could send.
        return
    for inner in folders:
        yield from found_spools(inner, depth=depth + 1)


def _unpacked(archive: Path, report: Callable[[str], None]) -> Path:
    """Unpack a ZIP file beside itself, once: what was sent from there is remembered there."""
    target = archive.with_name(f"{archive.name}.unpacked")
    if target.is_dir():
        return target
    try:
        with (
            zipfile.ZipFile(archive) as packed,
            tempfile.TemporaryDirectory(dir=archive.parent, prefix=f".{archive.name}.") as new,
        ):
            _unpack(packed, Path(new))
            Path(new).replace(target)
            # What is cleaned up at the end of the block is not the target.
            Path(new).mkdir()
    except zipfile.BadZipFile as error:
        raise InputError(
            f"{archive} is no whole ZIP file ({error}); download it again, or give the folder."
        ) from None
    except OSError as error:
        raise InputError(
            f"{archive} cannot be unpacked beside itself: {error.strerror or error}; unpack it where "
            "there is room, and push that folder."
        ) from None
    report(f"{archive} is unpacked into {target}; what is sent is remembered there.")
    return target


def _unpack(packed: zipfile.ZipFile, folder: Path) -> None:
    needed = sum(info.file_size for info in packed.infolist())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"The ZIP file holds {needed} bytes, and {folder.parent} has room for {free}."
        )
    for info in packed.infolist():
        # Names that lead elsewhere are made harmless by `extract`; a link stays behind.
        if stat.S_IFMT(info.external_attr >> 16) != _LINK:
            packed.extract(info, folder)


def disk_names(path: str) -> list[str]:
    """Return the components of a path as a file system takes them: a long one is cut and numbered."""
    return [
        part
        if len(part) <= _LONGEST_NAME
        else f"{part[:_LONGEST_NAME]}.{hashlib.sha256(part.encode()).hexdigest()[:16]}"
        for part in path.split("/")
    ]
