"""Canonical bytes (RFC 8785) and the digests that name documents."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import NewType

import rfc8785

from evalhub.protocol.faults import DocumentError, Fault

Digest = NewType("Digest", str)
"""`sha256:` and 64 lower-case hexadecimal digits."""

_LARGEST_INTEGER = 2**53 - 1

_JSON_TYPES = "null, true, false, a string, a number, an array or an object"


def bytes_digest(data: bytes) -> Digest:
    """Return the digest of bytes as they are.

    >>> bytes_digest(b"")
    'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    """
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def canonical_bytes(document: object) -> bytes:
    """Return the RFC 8785 bytes of a JSON document (dicts, lists, strings, numbers).

    Raises:
        DocumentError: where a value has no canonical form: NaN, an integer beyond 2^53 - 1,
            a lone surrogate, or a Python object that is not JSON. The pointer names the place.

    >>> canonical_bytes({"b": 1, "a": [2.0, None]})
    b'{"a":[2,null],"b":1}'
    """
    fault = _first_fault(document, "")
    if fault is not None:
        raise DocumentError([fault])
    return rfc8785.dumps(document)  # type: ignore[arg-type]


def document_digest(document: object) -> Digest:
    """Return the digest of a JSON document: sha256 over its RFC 8785 bytes.

    Raises:
        DocumentError: as `canonical_bytes`.
    """
    return bytes_digest(canonical_bytes(document))


def _first_fault(value: object, pointer: str) -> Fault | None:
    match value:
        case str():
            return _text_fault(value, pointer)
        case int() | float():
            return _number_fault(value, pointer)
        case Mapping():
            return _mapping_fault(value, pointer)
        case Sequence():
            faults = (_first_fault(item, f"{pointer}/{i}") for i, item in enumerate(value))
            return next((fault for fault in faults if fault is not None), None)
    return None if value is None else Fault(pointer, type(value).__name__, _JSON_TYPES)


def _number_fault(value: int | float, pointer: str) -> Fault | None:
    if isinstance(value, int):
        fits = abs(value) <= _LARGEST_INTEGER
        return None if fits else Fault(pointer, str(value), "an integer of at most 2^53 - 1")
    if not math.isfinite(value):
        return Fault(pointer, str(value), "a finite number")
    return None


def _text_fault(value: str, pointer: str) -> Fault | None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return Fault(pointer, ascii(value)[:80], "text without lone surrogates")
    return None


def _mapping_fault(value: Mapping[object, object], pointer: str) -> Fault | None:
    for key, item in value.items():
        if not isinstance(key, str):
            return Fault(pointer, f"the key {key!r}", "keys that are strings")
        fault = _text_fault(key, pointer) or _first_fault(item, f"{pointer}/{key}")
        if fault is not None:
            return fault
    return None
