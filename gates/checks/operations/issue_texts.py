"""What a rolling issue and its comments say. Every part from outside is neutralized Markdown."""

from collections.abc import Sequence

from django.conf import settings
from django.urls import reverse

from gates.checks.models import RollingIssue
from gates.checks.operations import markdown
from gates.checks.queries import MOST_GOING_ON
from lanes.projects.models import Notice, NoticeState
from lanes.projects.operations import wording

LABEL = "evalhub"
"""Only who may triage can set it, so an issue that copies the marker is not taken for ours."""


def marker_of_issue(issue: RollingIssue) -> str:
    """Return what is hidden in the issue's text and finds it again, whatever its number."""
    return f"<!-- evalhub:rolling-issue {issue.uid} -->"


def marker_of_notice(notice: Notice) -> str:
    """Return what is hidden in the comment of a notice."""
    return f"<!-- evalhub:notice {notice.uid} -->"


def title(issue: RollingIssue) -> str:
    """Return the title that the issue begins with; people may change it."""
    return f"evalhub: {issue.get_family_display()}"


def body(issue: RollingIssue, *, going_on: Sequence[Notice], over: Sequence[Notice]) -> str:
    """Return the issue's text: what goes on, and what was over last."""
    project = issue.project
    page = settings.PUBLIC_URL + reverse("notices", args=[project.name])
    count = f"{len(going_on)} or more" if len(going_on) == MOST_GOING_ON else len(going_on)
    lines = [
        marker_of_issue(issue),
        f"What evalhub has to tell of {markdown.code(project.name)}: {issue.get_family_display()}."
        " Each new notice is a comment; this text follows, and the issue is open as long as anything"
        " goes on.",
        "",
        f"**{count or 'Nothing'} going on**",
        "",
        *markdown.table(
            ["Notice", "Raised", "Acknowledged"],
            [[_linked(n), f"{n.raised_at:%Y-%m-%d %H:%M} UTC", _by(n)] for n in going_on],
        ),
    ]
    if over:
        lines += ["**Over**", ""]
        lines += markdown.table(
            ["Notice", "Raised", "Over since"],
            [[_linked(n), f"{n.raised_at:%Y-%m-%d %H:%M} UTC", _over_since(n)] for n in over],
        )
    lines.append(f"[All notices]({page})")
    return markdown.cut(lines, rest_url=page)


def comment(notice: Notice) -> str:
    """Return the comment of a notice."""
    page = wording.page_url(notice)
    lines = [
        marker_of_notice(notice),
        f"**{markdown.prose(notice.subject)}**",
        "",
        *(markdown.prose(line) for line in notice.detail.splitlines()),
        "",
        f"[More]({settings.PUBLIC_URL}{notice.path}) · [Acknowledge]({page})",
    ]
    if notice.state == NoticeState.ACKNOWLEDGED:
        lines.append(f"Acknowledged by {markdown.code(notice.acknowledged_by)}.")
    return markdown.cut(lines, rest_url=page)


def _linked(notice: Notice) -> str:
    return f"{markdown.prose(notice.subject)} ([look]({wording.page_url(notice)}))"


def _by(notice: Notice) -> str:
    return markdown.code(notice.acknowledged_by) if notice.acknowledged_at else "no"


def _over_since(notice: Notice) -> str:
    return f"{notice.resolved_at:%Y-%m-%d %H:%M} UTC" if notice.resolved_at else ""
