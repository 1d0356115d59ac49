"""Only interfaces read the clock; everything else takes `at` and can be tested at any time."""

import ast

from tests.architecture.sources import Source, dotted, sources

INTERFACES = {"views", "api", "tasks", "management", "authentication", "middleware", "context"}
READS = {"timezone.now", "timezone.localtime", "time.time", "time.time_ns"} | {
    f"{prefix}{name}"
    for prefix in ("", "datetime.")
    for name in ("datetime.now", "datetime.utcnow", "datetime.today", "date.today")
}


def _reads(source: Source) -> list[str]:
    return [
        f"{source.path}:{node.lineno} {dotted(node)}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and dotted(node) in READS
    ]


def test_server_reads_the_clock_in_interfaces_only() -> None:
    rooms = sources("lanes", "evidence", "gates", "evalhub/web", "evalhub/tasks")
    inner = [source for source in rooms if not source.words & INTERFACES]

    assert inner
    assert [read for source in inner for read in _reads(source)] == []


def test_pure_floors_read_no_clock() -> None:
    pure = sources("evalhub/protocol", "evalhub/stats")

    assert [read for source in pure for read in _reads(source)] == []


def test_lane_side_reads_the_clock_in_one_module() -> None:
    lane_side = [s for s in sources("evalhub/runner") if s.path.name != "clock.py"]

    assert [read for source in lane_side for read in _reads(source)] == []
