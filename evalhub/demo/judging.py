"""The demo's judges: facts about the final world, and a scorer that is only noise around them.

The first is stage `check` of rubric `resolved`: it asks the world itself. The second is stage
`classifier` of rubric `helpfulness`: a seeded noisy scorer, which stands where a judge model would
and says in each rationale that it is none.
"""

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from evalhub.demo.chance import noise
from evalhub.demo.payments import JsonObject, Payments
from evalhub.demo.scripted import Ending, part_of
from evalhub.demo.transcript import Transcript, timestamp
from evalhub.runner import clock

# The definitions of both stages: their digests are the fingerprints that plans name.
DEFINITIONS: tuple[JsonObject, ...] = (
    {
        "rubric": "resolved",
        "stage": "check",
        "definition": {
            "version": 1,
            "kind": "facts of the final world",
            "rule": "1 when every expected fact holds, else 0",
        },
    },
    {
        "rubric": "helpfulness",
        "stage": "classifier",
        "definition": {
            "version": 1,
            "kind": "seeded noisy scorer, not a model",
            "all_facts_hold": 8500,
            "no_fact_holds": 1500,
            "for_the_share_that_holds": 2500,
            "for_saying_that_it_failed": 1000,
            "unit": "thousandths of a point, of 10 points",
            "spread": 500,
        },
    },
)
# Both run on this machine: a call costs nothing, and that is known, not estimated.
PRICE_MICROUSD_PER_CALL = 0
_SCORER = DEFINITIONS[1]["definition"]


class World(NamedTuple):
    """The final world, as the judge's own queries found it."""

    customers: list[JsonObject]
    orders: dict[str, JsonObject]
    refunds: list[JsonObject]


class Fact(NamedTuple):
    """One expectation: whether it holds, and in words what was expected and found."""

    holds: bool
    text: str


class RunName(NamedTuple):
    """What the noise of one run follows from."""

    scenario: str
    arm: str
    epoch: int
    commit: str


def final_world(payments: Payments) -> World:
    """Return the world after the run, asked for over HTTP like everything else."""
    customers = list(payments.rows("/v1/customers"))
    charges = {row["id"]: row for row in payments.rows("/v1/charges")}
    by_id = {row["id"]: row for row in customers}
    orders = {
        row["metadata"].get("order", row["id"]): {
            **row,
            "charge": charges.get(row["latest_charge"]),
            "customer": by_id.get(row["customer"]),
        }
        for row in payments.rows("/v1/payment_intents")
    }
    return World(customers, orders, list(payments.rows("/v1/refunds")))


def checked_facts(expected: Sequence[JsonObject], world: World, *, answer: str) -> list[Fact]:
    """Return each expected fact with what was found.

    Raises:
        KeyError: for an expectation of an unknown form.
    """
    return [fact for entry in expected for fact in _facts(entry, world, answer)]


def judge_lines(
    facts: Sequence[Fact],
    ending: Ending,
    transcript: Transcript,
    run: RunName,
    *,
    fingerprints: dict[str, str],
) -> list[JsonObject]:
    """Return the two judge lines of a run."""
    cites = _cited(transcript)
    held = sum(fact.holds for fact in facts)
    found = "; ".join(fact.text for fact in facts)
    score = helpfulness(facts, ending, run)
    return [
        _line(
            "resolved",
            "check",
            1.0 if held == len(facts) else 0.0,
            f"{held} of {len(facts)} facts hold: {found}.",
            cites,
            fingerprints,
        ),
        _line(
            "helpfulness",
            "classifier",
            score,
            f"{_praise(facts, ending)} (turns {', '.join(map(str, cites))}). "
            "This score is from a seeded noisy scorer, not a model.",
            cites,
            fingerprints,
        ),
    ]


def helpfulness(facts: Sequence[Fact], ending: Ending, run: RunName) -> float:
    """Return the scorer's points from 0 to 10: what the facts give, and noise."""
    share = sum(fact.holds for fact in facts) / len(facts)
    points: float
    if share == 1.0:
        points = _SCORER["all_facts_hold"]
    else:
        points = _SCORER["no_fact_holds"] + share * _SCORER["for_the_share_that_holds"]
        if ending.given_up is not None:
            points += _SCORER["for_saying_that_it_failed"]
    points += noise("helpfulness", *run, spread=_SCORER["spread"])
    return float(round(min(max(points / 1000, 0.0), 10.0), 1))


def failure(facts: Sequence[Fact], ending: Ending, transcript: Transcript) -> JsonObject | None:
    """Return why a run failed, by rules; None for a run that did not."""
    broken = [fact.text for fact in facts if not fact.holds]
    if not broken:
        return None
    last_call = transcript.calls[-1]["turn"] if transcript.calls else len(transcript.turns)
    if ending.given_up is not None:
        category = "gave_up"
        cause = f"The agent gave up: {ending.given_up}"
        advice = "Read every page of a list, and keep notes, before saying that nothing is there."
    else:
        category = "wrong_result"
        cause = f"The agent reported success, but {'; '.join(broken)}."
        advice = "Compare the arguments of the last call with the task before reporting success."
    return {
        "category": category,
        "root_cause": cause,
        "turns": sorted({last_call, len(transcript.turns)}),
        "recommended_fix": {
            "target": "agent",
            "file": "evalhub/demo/scripted.py",
            "description": advice,
        },
        "by": "rules",
    }


def _facts(entry: JsonObject, world: World, answer: str) -> list[Fact]:
    match entry:
        case {"order": number, **wanted}:
            return _order_facts(number, wanted, world)
        case {"customer": email, **wanted}:
            return _customer_facts(email, wanted, world)
        case {"answer": text}:
            holds = text in answer
            return [Fact(holds, f'the answer {"says" if holds else "does not say"} "{text}"')]
    rows = {"customers": world.customers, "orders": world.orders, "refunds": world.refunds}
    return [
        _compared(f"the number of {name}", count, len(rows[name])) for name, count in entry.items()
    ]


def _order_facts(number: str, wanted: JsonObject, world: World) -> list[Fact]:
    order = world.orders.get(number)
    facts = _fields(f"order {number}", order, wanted.get("has", {}))
    if "refunded" in wanted:
        key = order["id"] if order is not None else None
        found = sorted(row["amount"] for row in world.refunds if row["payment_intent"] == key)
        facts.append(_compared(f"the refunds of order {number}", sorted(wanted["refunded"]), found))
    return facts


def _customer_facts(email: str, wanted: JsonObject, world: World) -> list[Fact]:
    rows = _with_email(world, email)
    if wanted.get("absent"):
        return [_compared(f"the number of customers with {email}", 0, len(rows))]
    return _fields(f"customer {email}", rows[0] if rows else None, wanted["has"])


def _with_email(world: World, email: str) -> list[JsonObject]:
    return [row for row in world.customers if row["email"] == email]


def _fields(subject: str, row: JsonObject | None, fields: JsonObject) -> list[Fact]:
    if row is None:
        return [Fact(holds=False, text=f"{subject} does not exist")]
    return [
        _compared(f"{name} of {subject}", value, part_of(row, name))
        for name, value in fields.items()
    ]


def _compared(subject: str, expected: object, found: object) -> Fact:
    if expected == found:
        return Fact(holds=True, text=f"{subject}: {found}")
    return Fact(holds=False, text=f"{subject}: expected {expected}, found {found}")


def _cited(transcript: Transcript) -> list[int]:
    """Return the turns to look at: the last two calls and the last word."""
    calls = [turn["turn"] for turn in transcript.calls][-2:]
    return sorted({*calls, len(transcript.turns)})


def _praise(facts: Sequence[Fact], ending: Ending) -> str:
    if all(fact.holds for fact in facts):
        return "The task was done and the answer names the result"
    if ending.given_up is not None:
        return "The task was not done, and the agent says so"
    return "The agent reports success, but the world is not as the task asked"


def _line(
    rubric: str,
    stage: str,
    value: float,
    rationale: str,
    cites: list[int],
    fingerprints: dict[str, str],
) -> JsonObject:
    return {
        "call_id": str(uuid.uuid4()),
        "rubric": rubric,
        "stage": stage,
        "fingerprint": fingerprints[rubric],
        "repeat": 1,
        "value": value,
        "unscored_reason": None,
        "rationale": rationale,
        "cites": cites,
        "model": None,
        "at": timestamp(clock.now()),
        "cost_microusd": PRICE_MICROUSD_PER_CALL,
        "cost_source": "price_table",
    }
