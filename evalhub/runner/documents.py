"""Reading the files that commands take: JSON or YAML, each key once, as the document they should be."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel

from evalhub.protocol.canonical import Digest, canonical_bytes, document_digest
from evalhub.protocol.faults import DocumentError, Fault, parse_document
from evalhub.runner.errors import DISK_FULL, DiskFullError, InputError

Model = TypeVar("Model", bound=BaseModel)
JsonObject = dict[str, Any]

_YAML_SUFFIXES = frozenset({".yaml", ".yml"})
_TIMESTAMP_TAG = "tag:yaml.org,2002:timestamp"
_MOST_FAULTS = 20


class Loaded(NamedTuple, Generic[Model]):
    """A document of a file: as it was parsed, as a model, and the digest that names it."""

    document: JsonObject
    model: Model
    digest: Digest


class _YamlLoader(yaml.SafeLoader):
    """YAML as JSON has it: dates stay text, and a key that stands twice is an error."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP_TAG]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's own signature
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        _refuse_repeated([str(key) for key in keys])
        return super().construct_mapping(node, deep=deep)


def read_file(path: Path, *, what: str) -> bytes:
    """Return the bytes of a file that the command was given as `what` ("plan", "suite").

    Raises:
        InputError: if it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"The {what} {path} cannot be read: {error.strerror or error}; give the path of a file."
        ) from None


def parsed(data: bytes, *, path: Path, what: str) -> Any:
    """Return what JSON or YAML (by the file's suffix) says.

    Raises:
        InputError: where it is neither, or a key stands twice.
    """
    try:
        text = data.decode()
        if path.suffix.lower() in _YAML_SUFFIXES:
            return yaml.load(text, Loader=_YamlLoader)  # noqa: S506 - derived from SafeLoader
        return json.loads(text, object_pairs_hook=_unrepeated)
    except yaml.MarkedYAMLError as error:
        raise InputError(_yaml_sentence(error, path=path, what=what)) from None
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"The {what} {path} is not valid: {reason}.") from None


def read_json(path: Path, *, what: str) -> Any:
    """Return the parsed content of a JSON or YAML file; raise InputError as `parsed` does."""
    return parsed(read_file(path, what=what), path=path, what=what)


def read_document(path: Path, model: type[Model], *, what: str) -> Loaded[Model]:
    """Return a file as a document of the wire.

    Raises:
        InputError: with the pointer, what stood there and what was expected.
    """
    return as_document(read_json(path, what=what), model, what=f"{what} {path}")


def as_document(document: Any, model: type[Model], *, what: str) -> Loaded[Model]:
    """Return parsed JSON as a document of the wire; raise InputError as `read_document` does."""
    try:
        data = canonical_bytes(document)
        return Loaded(document, parse_document(model, data), document_digest(document))
    except DocumentError as error:
        told = fault_lines(error.misspelt_first()) if len(error.faults) > 1 else f" {error}"
        raise InputError(f"The {what} is not valid:{told}") from None


def fault_lines(faults: Sequence[Fault]) -> str:
    """Return faults for a terminal, each on a line of its own below what was said before."""
    lines = "".join(f"\n  {fault}" for fault in faults[:_MOST_FAULTS])
    more = len(faults) - _MOST_FAULTS
    return f"{lines}\n  and {more} more" if more > 0 else lines


def write_document(path: Path, document: object) -> None:
    """Write a document so that it is there whole or not at all.

    Raises:
        InputError: if the place cannot be written.
    """
    write_whole(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())


def write_whole(
    path: Path, data: bytes, *, mode: int = 0o644, survives_power_cut: bool = True
) -> None:
    """Write bytes under a temporary name, sync, and rename: readers see all or nothing.

    Raises:
        DiskFullError: if there is no room.
        InputError: if the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                if survives_power_cut:
                    os.fsync(file.fileno())
                os.fchmod(file.fileno(), mode)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = f"{path} cannot be written: {error.strerror or error}"
        if error.errno in DISK_FULL:
            raise DiskFullError(f"{reason}; make room there.") from None
        raise InputError(f"{reason}; choose another place.") from None


def _yaml_sentence(error: yaml.MarkedYAMLError, *, path: Path, what: str) -> str:
    """Return where and why YAML ends to be YAML, without the drawing that the parser makes of it."""
    mark = error.problem_mark or error.context_mark
    place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    reason = " ".join(filter(None, (error.context, error.problem)))
    return f"The {what} {path} is not valid{place}: {' '.join(reason.split())}."


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _refuse_repeated([key for key, _ in pairs])
    return dict(pairs)


def _refuse_repeated(keys: list[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"the key {key!r} stands twice in one object; keep one of them")
        seen.add(key)
