"""Rules of registration: scenarios can be told apart, and the suite is the one that it says it is."""

from collections.abc import Iterator

from evalhub.protocol.paths import encoded_component
from evalhub.protocol.refusals import Case, Refusal

# Leaves room for arm, epoch and file name within LONGEST_PATH.
_LONGEST_ENCODED_ID = 600


def unusable_ids(case: Case) -> Iterator[Refusal]:
    folded: dict[str, str] = {}
    for i, scenario in enumerate(case.plan.scenarios):
        twin = folded.setdefault(scenario.id.casefold(), scenario.id)
        if twin != scenario.id:
            yield Refusal(
                "scenario_ids_alike",
                f"/scenarios/{i}/id",
                f"{scenario.id!r} beside {twin!r}",
                "ids that differ in more than upper and lower case",
                "Rename one: on some file systems both would be one folder.",
            )
        length = len(encoded_component(scenario.id))
        if length > _LONGEST_ENCODED_ID:
            yield Refusal(
                "scenario_id_too_long",
                f"/scenarios/{i}/id",
                f"{length} characters once percent-encoded",
                f"at most {_LONGEST_ENCODED_ID}",
                "Shorten the id: it names a folder in which evidence lies.",
            )


def untrue_suite(case: Case) -> Iterator[Refusal]:
    """A plan that names the base suite's digest must say what that suite says."""
    if case.base is None or case.plan.suite.digest != case.base.digest:
        return
    true = case.base.suite
    for field in ("cohesive", "memory_categories"):
        told, wanted = getattr(case.plan.suite, field), getattr(true, field)
        if sorted(told) != sorted(wanted):
            yield _untrue(f"/suite/{field}", told, wanted)
    known = {scenario.id: scenario for scenario in true.scenarios}
    for i, scenario in enumerate(case.plan.scenarios):
        twin = known.get(scenario.id)
        if twin is None:
            yield _untrue(f"/scenarios/{i}/id", scenario.id, "a scenario of that suite")
            continue
        pairs = {
            "digest": (scenario.digest, twin.digest),
            "category": (scenario.category, twin.category),
            # These two have no order.
            "tags": (sorted(scenario.tags), sorted(twin.tags)),
            "artifacts": (sorted(scenario.artifacts), sorted(twin.artifacts)),
        }
        for field, (told, wanted) in pairs.items():
            if told != wanted:
                yield _untrue(f"/scenarios/{i}/{field}", told, wanted)


def _untrue(pointer: str, told: object, wanted: object) -> Refusal:
    fix = "Build the plan from the suite that /suite/digest names."
    return Refusal("suite_untrue", pointer, repr(told), repr(wanted), fix)
