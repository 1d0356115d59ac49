"""The suite: what is asked of the agent. The lane map: which lane runs which category."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from evalhub.protocol.scalars import DigestText, Label, Line, Name, Record, ScenarioId


class Scenario(Record):
    """One task. Its digest covers the task's definition, never its results."""

    id: ScenarioId
    category: Label
    digest: DigestText
    artifacts: list[Label] = []
    tags: list[Label] = []
    file: Line | None = None


class SuiteScenario(Scenario):
    """A scenario as the suite lists it, with the time that it is expected to take."""

    weight_minutes: float = Field(default=1.0, gt=0, le=10_000)


class Suite(Record):
    """A named, versioned set of scenarios."""

    schema_: Literal["evalhub.suite/1"] = Field(alias="schema")
    name: Name
    version: Label
    scenarios: list[SuiteScenario] = Field(min_length=1)
    cohesive: list[Label] = []
    memory_categories: list[Label] = []

    @model_validator(mode="after")
    def _names_each_scenario_once(self) -> "Suite":
        refuse_repeated("scenarios", (scenario.id for scenario in self.scenarios))
        return self


class LaneShare(Record):
    """The categories that one lane runs."""

    lane: Name
    categories: list[Label]


class LaneMap(Record):
    """GAIA's form: lanes by category, and the categories that no lane runs, each with a reason."""

    lanes: list[LaneShare]
    excluded: dict[Label, Line] = {}

    @model_validator(mode="after")
    def _names_each_lane_once(self) -> "LaneMap":
        refuse_repeated("lanes", (share.lane for share in self.lanes))
        return self


def refuse_repeated(field: str, names: Iterable[str]) -> None:
    """Raise ValueError that names what occurs more than once in a list of names."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"{field} without repetition; {', '.join(repeated[:5])} occurs twice")
