"""Canonical bytes: the published examples of RFC 8785, and what has no canonical form."""

import json
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.protocol.canonical import bytes_digest, canonical_bytes, document_digest
from evalhub.protocol.faults import DocumentError

# RFC 8785, section 3.2.2.
SAMPLE = r"""{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"""
# Section 3.2.4, the same as bytes.
SAMPLE_BYTES = bytes.fromhex(
    "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e"
    "756d62657273223a5b3333333333333333332e333333333333332c31652b3330"
    "2c342e352c302e3030322c31652d32375d2c22737472696e67223a22e282ac24"
    "5c75303030665c6e4127425c225c5c5c5c5c222f227d"
)
# Section 3.2.3: sorted by UTF-16 code units, so the emoji comes before the Hebrew letter.
UNSORTED = {
    "\u20ac": "Euro Sign",
    "\r": "Carriage Return",
    "\ufb33": "Hebrew Letter Dalet With Dagesh",
    "1": "One",
    "\U0001f600": "Emoji: Grinning Face",
    "\u0080": "Control",
    "\u00f6": "Latin Small Letter O With Diaeresis",
}
SORTED_VALUES = [
    "Carriage Return",
    "One",
    "Control",
    "Latin Small Letter O With Diaeresis",
    "Euro Sign",
    "Emoji: Grinning Face",
    "Hebrew Letter Dalet With Dagesh",
]


def test_sample_of_the_rfc_has_its_published_bytes() -> None:
    assert canonical_bytes(json.loads(SAMPLE)) == SAMPLE_BYTES


def test_keys_are_sorted_as_the_rfc_sorts_them() -> None:
    assert list(json.loads(canonical_bytes(UNSORTED)).values()) == SORTED_VALUES


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        # RFC 8785, appendix B.
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_written_as_the_rfc_lists_them(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))

    assert canonical_bytes(number) == text.encode()


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_numbers_that_the_rfc_forbids_are_refused(bits: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))

    with pytest.raises(DocumentError, match="expected a finite number"):
        canonical_bytes(number)


@pytest.mark.parametrize(
    ("document", "pointer", "expected"),
    [
        ({"a": [1, float("nan")]}, "/a/1", "a finite number"),
        ({"a": {"b": 2**53}}, "/a/b", "an integer of at most 2^53 - 1"),
        ({"a": -(2**53)}, "/a", "an integer of at most 2^53 - 1"),
        ({"a": "\ud800"}, "/a", "text without lone surrogates"),
        ({"\udfff": 1}, "", "text without lone surrogates"),
        ({"a": [{1: 2}]}, "/a/0", "keys that are strings"),
        ({"a": Decimal(1)}, "/a", "an object"),
        ({"a": object()}, "/a", "an object"),
    ],
)
def test_value_without_a_canonical_form_is_named(
    document: object, pointer: str, expected: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        canonical_bytes(document)

    (fault,) = caught.value.faults
    assert fault.pointer == pointer
    assert fault.expected.endswith(expected)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(JSON)
def test_canonical_bytes_are_stable(document: Any) -> None:
    once = canonical_bytes(document)

    # Parsed as floats where they are written so: 1e22 has no exact place among the integers.
    assert canonical_bytes(json.loads(once, parse_int=float)) == once


@given(st.dictionaries(st.text("abc\u00e9\U0001f600"), st.integers(0, 9)))
def test_order_of_keys_does_not_change_the_digest(document: dict[str, int]) -> None:
    backwards = dict(reversed(document.items()))

    assert document_digest(document) == document_digest(backwards)


def test_digests_name_the_bytes() -> None:
    assert document_digest({}) == bytes_digest(b"{}")
    assert document_digest({}).startswith("sha256:44136fa3")
