"""What the demo shows on the terminal: progress while lanes run, and what came of it."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from evalhub.demo.story import Chapter, Lane, Told

_TICK_SECONDS = 0.1


def watch_lanes(console: Console, chapter: Chapter, lanes: list[Lane]) -> None:
    """Draw a bar per lane from what the lanes say about themselves, until all have ended."""
    columns = (
        TextColumn("  {task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[phase]}"),
        TimeElapsedColumn(),
    )
    # Without a thread of its own: this process forks.
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        tasks = {
            lane.name: progress.add_task(lane.name, total=lane.total, phase="starting")
            for lane in lanes
        }
        while True:
            over = all(lane.running.is_over for lane in lanes)
            for lane in lanes:
                progress.update(tasks[lane.name], completed=lane.done, phase=lane.phase)
            progress.refresh()
            if over:
                return
            time.sleep(_TICK_SECONDS)


def lanes_line(told: Told) -> str:
    """Return one sentence about what the lanes delivered."""
    outcomes: dict[str, int] = {}
    for lane in told.lanes:
        for name, count in lane["outcomes"].items():
            outcomes[name] = outcomes.get(name, 0) + count
    counted = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    items = told.document()["items"]
    return f"{counted}; {items['accepted']} items accepted, {items['refused']} refused."


def verdict_table(told: Told) -> Table:
    """Return the verdicts of one plan, as text that needs no color."""
    table = Table(title=f"Verdicts of the {told.chapter.name}", title_justify="left")
    for name in ("rubric", "slice", "verdict", "effect", "95 % interval", "smallest visible"):
        table.add_column(name)
    for row in told.conclusion["verdicts"]:
        if row["category"] is not None and row["verdict"] != "REGRESSION":
            continue
        confirmed = " (confirmed)" if row.get("confirmed") else ""
        table.add_row(
            row["rubric"],
            row["category"] or "overall",
            f"{row['verdict']}{confirmed}",
            _number(row["delta"]),
            _interval(row["ci95"]),
            _number(row["mde"]),
        )
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3g}"


def _interval(ends: list[float | None] | None) -> str:
    if not ends or ends[0] is None or ends[1] is None:
        return "-"
    return f"{ends[0]:+.3g} to {ends[1]:+.3g}"
