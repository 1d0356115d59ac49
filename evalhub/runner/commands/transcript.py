"""`evalhub transcript`: the turns of a run. What a transcript says is hostile until it is escaped."""

import argparse

from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json
from evalhub.runner.documents import JsonObject
from evalhub.runner.errors import Exit
from evalhub.runner.options import wants_json

_PAGE = 200
# Before each line of a turn, so that no line of a transcript looks like one of this command.
_QUOTE = "  | "


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument("run", type=int, metavar="RUN", help="its number, as `evalhub runs` has it")
    parser.add_argument("--from", dest="start", type=int, default=1, metavar="TURN")
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many turns")
    parser.set_defaults(handler=transcript)


def transcript(options: argparse.Namespace) -> int:
    """Show the turns of a run."""
    turns: list[JsonObject] = []
    start, total = options.start, 0
    with connected(options) as store:
        while start is not None and (options.limit is None or len(turns) < options.limit):
            left = _PAGE if options.limit is None else min(_PAGE, options.limit - len(turns))
            page = store.transcript(options.run, start=start, limit=left)
            turns += page["turns"]
            start, total = page["next"], page["total"]
    if wants_json(options):
        say_json({"turns": turns, "total": total})
        return Exit.GOOD
    for turn in turns:
        say(turn_text(turn))
    say(f"{len(turns)} of {total} turns.")
    return Exit.GOOD


def turn_text(turn: JsonObject) -> str:
    """Return one turn for a person, its content quoted line by line."""
    tool = turn.get("tool") or {}
    what = f" {tool['name']}" if tool else ""
    head = f"{turn['turn']}. {turn['role']} {turn['kind']}{what}"
    body = turn.get("body")
    content = [
        tool.get("arguments"),
        turn.get("text"),
        f"(long text: attachment body-{body.removeprefix('sha256:')})" if body else None,
    ]
    lines = [line for text in content if text for line in text.split("\n")]
    return "\n".join([head, *(_QUOTE + line for line in lines)])
