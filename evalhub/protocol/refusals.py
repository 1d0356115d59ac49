"""What a rule of registration looks at, and what it says."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Policy
from evalhub.protocol.suite import Suite


class Refusal(NamedTuple):
    """One reason why a plan is not registered."""

    code: str
    pointer: str
    got: str
    expected: str
    fix: str


class BaseSuite(NamedTuple):
    """A suite and the digest that names it."""

    digest: str
    suite: Suite


class Case(NamedTuple):
    """What the rules look at. `base` is the base branch's suite, None where there is none yet."""

    plan: Plan
    policy: Policy
    base: BaseSuite | None
    at: datetime


Rule = Callable[[Case], Iterator[Refusal]]
