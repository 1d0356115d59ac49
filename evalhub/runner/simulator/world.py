"""The state of one payments world: tables, ids and a virtual clock, all following from the seed."""

import hashlib
from copy import deepcopy
from dataclasses import dataclass, field

import rfc8785

from evalhub.runner.simulator.errors import JsonObject, missing_object

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTHS = {"cus": 14, "pi": 24, "ch": 24, "re": 24}
# 2026-11-01T00:00:00Z. The world's own time: a real clock would make equal runs differ.
CLOCK_START = 1_793_491_200


def draw(*labels: object, below: int) -> int:
    """Return a number in [0, below) that follows from `labels` alone, on every Python version."""
    text = "\x1f".join(str(label) for label in labels)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % below


@dataclass
class World:
    """Everything an agent can see or change.

    `tables` maps a table's name to its objects by id. Customers that were deleted stay as the stub
    that the API answers for them.
    """

    seed: int
    customers: dict[str, JsonObject] = field(default_factory=dict)
    payment_intents: dict[str, JsonObject] = field(default_factory=dict)
    charges: dict[str, JsonObject] = field(default_factory=dict)
    refunds: dict[str, JsonObject] = field(default_factory=dict)
    clock: int = CLOCK_START
    ids_issued: int = 0

    def new_id(self, prefix: str) -> str:
        """Return an id never issued before in this world."""
        self.ids_issued += 1
        number = int.from_bytes(
            hashlib.sha256(f"{self.seed}/{prefix}/{self.ids_issued}".encode()).digest(), "big"
        )
        letters = []
        for _ in range(_ID_LENGTHS[prefix]):
            number, rest = divmod(number, len(_ALPHABET))
            letters.append(_ALPHABET[rest])
        return f"{prefix}_{''.join(letters)}"

    def tick(self) -> int:
        """Return the time of the next write: each write is one second later than the last."""
        self.clock += 1
        return self.clock

    def digest(self) -> str:
        """Return the sha256 of the RFC 8785 bytes of all tables."""
        tables = {
            "charges": self.charges,
            "customers": self.customers,
            "payment_intents": self.payment_intents,
            "refunds": self.refunds,
        }
        return f"sha256:{hashlib.sha256(rfc8785.dumps(tables)).hexdigest()}"

    def copy(self) -> "World":
        return deepcopy(self)


def found(
    table: dict[str, JsonObject], key: str, *, noun: str, param: str, in_path: bool = True
) -> JsonObject:
    """Return the object with this id.

    Raises:
        ApiError: if there is none; 404 for an id in the path, 400 for one in a parameter.
    """
    if key not in table:
        raise missing_object(noun, key, param=param, status=404 if in_path else 400)
    return table[key]
