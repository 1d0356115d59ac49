"""What came back: segments and their items, refusals, runs, judge calls and scores; and what was removed."""

from evidence.store.models.keeping import (
    Pin,
    PlanStorage,
    Removal,
    Retention,
    StoredClass,
)
from evidence.store.models.runs import (
    HAS_SECRETS,
    NOT_LOOKED_AT,
    NOTHING_FOUND,
    UNREADABLE,
    Item,
    JudgeCall,
    Run,
    Score,
)
from evidence.store.models.segments import (
    LONGEST_KEPT_PATH,
    Refusal,
    Seal,
    Segment,
)
from evidence.store.models.upkeep import (
    OrphanRound,
    PlanCopy,
    StorageFault,
    StorageOperation,
)

__all__ = [
    "HAS_SECRETS",
    "LONGEST_KEPT_PATH",
    "NOTHING_FOUND",
    "NOT_LOOKED_AT",
    "UNREADABLE",
    "Item",
    "JudgeCall",
    "OrphanRound",
    "Pin",
    "PlanCopy",
    "PlanStorage",
    "Refusal",
    "Removal",
    "Retention",
    "Run",
    "Score",
    "Seal",
    "Segment",
    "StorageFault",
    "StorageOperation",
    "StoredClass",
]
