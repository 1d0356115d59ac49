"""The rolling issue, against a stand-in for GitHub: told once, adopted when lost, closed and reopened."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from gates.checks import queries
from gates.checks.models import IssueFamily, RollingIssue
from gates.checks.operations import issues
from gates.checks.tasks import sweep_issue_notices
from lanes.projects.models import Channel, ChannelKind, Delivery, DeliveryState, NoticeKind, Project
from lanes.projects.operations import channels, deliveries, notices
from tests.gates.checks.scripted import Answer, scripted_github
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.projects.made import make_channel, make_notice
from tests.lanes.threads import at_once
from tests.programs.github import GitHubStandIn

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

LATER = NOW + timedelta(minutes=10)


class Repository:
    """What GitHub shows in one project's repository, and what a person does there."""

    def __init__(self, standin: GitHubStandIn, project: Project) -> None:
        self.standin, self.name = standin, project.name

    def ask(self, method: str, path: str, body: object = None) -> Any:
        answer = httpx.request(
            method,
            f"{self.standin.url}/repos/{self.name}/issues{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.standin.token}"},
            trust_env=False,
        )
        return answer.raise_for_status().json()

    @property
    def issues(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("GET", "?state=all&direction=asc")
        return found

    def comments(self, number: int) -> list[str]:
        return [row["body"] for row in self.ask("GET", f"/{number}/comments")]


@pytest.fixture
def project() -> Project:
    return factories.make_project()


@pytest.fixture
def repository(standin: GitHubStandIn, project: Project) -> Repository:
    return Repository(standin, project)


def work(channel: Channel, *, at: Any = NOW, timeout_seconds: float = 10) -> int:
    """Take steps as the task does; return how many went well."""
    steps = 0
    while issues.take_step(channel, at=at, timeout_seconds=timeout_seconds):
        steps += 1
    return steps


def issue_channel(project: Project) -> Channel:
    return make_channel(project, ChannelKind.GITHUB_ISSUE, name="issue")


def test_each_notice_is_a_comment_of_one_labelled_issue(
    repository: Repository, project: Project
) -> None:
    channel = issue_channel(project)
    first = make_notice(project, subject="Monday is red")
    make_notice(project, kind=NoticeKind.NIGHTLY_ABSENT, subject="Tuesday did not come")
    work(channel)

    (issue,) = repository.issues
    assert (issue["state"], issue["title"]) == ("open", "evalhub: nightly runs")
    assert issue["labels"] == [{"name": "evalhub"}]
    assert "**2 going on**" in issue["body"]
    assert "Monday is red" in issue["body"]
    monday, tuesday = repository.comments(issue["number"])
    assert f"<!-- evalhub:notice {first.uid} -->" in monday
    assert f"/notices/{first.pk}/" in monday
    assert "Tuesday did not come" in tuesday
    sent = Delivery.objects.values_list("state", "attempts", "is_uncertain").distinct()
    assert list(sent) == [(DeliveryState.SENT, 1, False)]
    assert work(channel, at=LATER) == 0


def test_each_family_has_an_issue_of_its_own(repository: Repository, project: Project) -> None:
    channel = issue_channel(project)
    for kind in (NoticeKind.NIGHTLY_RED, NoticeKind.BUDGET, NoticeKind.DRIFT):
        make_notice(project, kind=kind)
    work(channel)

    assert [issue["title"] for issue in repository.issues] == [
        "evalhub: nightly runs",
        "evalhub: judge budget",
        "evalhub: drift of simulators",
    ]


def test_issue_closes_after_the_last_and_reopens_with_the_next(
    repository: Repository, project: Project
) -> None:
    channel = issue_channel(project)
    red, other = make_notice(project), make_notice(project)
    work(channel)
    notices.acknowledge_notice(red, actor="user:ada", at=NOW)
    notices.resolve_notice(project, kind=NoticeKind.NIGHTLY_RED, key=red.key, at=NOW)
    work(channel)
    (issue,) = repository.issues
    assert issue["state"] == "open"
    assert "**1 going on**" in issue["body"]
    assert "**Over**" in issue["body"]

    notices.resolve_notice(project, kind=NoticeKind.NIGHTLY_RED, key=other.key, at=LATER)
    work(channel, at=LATER)
    (issue,) = repository.issues
    assert issue["state"] == "closed"
    assert "**Nothing going on**" in issue["body"]

    make_notice(project)
    work(channel, at=LATER)
    (issue,) = repository.issues
    assert issue["state"] == "open"
    assert len(repository.comments(issue["number"])) == 3


def test_acknowledgement_is_shown_and_keeps_it_open(
    repository: Repository, project: Project
) -> None:
    channel = issue_channel(project)
    notice = make_notice(project)
    work(channel)
    notices.acknowledge_notice(notice, actor="user:ada", at=NOW)
    work(channel)

    (issue,) = repository.issues
    assert issue["state"] == "open"
    assert "`user:ada`" in issue["body"]


def test_text_from_outside_mentions_links_and_marks_nothing(
    repository: Repository, project: Project
) -> None:
    channel = issue_channel(project)
    hostile = "@acme/all #1 ![x](https://evil.example/x) <img src=x> [a](b) | c -->"
    make_notice(
        project, subject=hostile, detail=f"{hostile}\n# heading\n- item\n<!-- evalhub:notice x"
    )
    work(channel)

    (issue,) = repository.issues
    for text in (issue["body"], *repository.comments(issue["number"])):
        for live in ("@acme", "#1", "https://evil", "<img", "[a](b)", "\n# heading", "\n- item"):
            assert live not in text
        assert text.count("<!--") == 1
        assert text.count("-->") == 1


@pytest.mark.parametrize("lost", ["create", "comment"])
def test_lost_answer_makes_nothing_twice(
    repository: Repository, project: Project, standin: GitHubStandIn, lost: str
) -> None:
    channel = issue_channel(project)
    if lost == "comment":
        make_notice(project, subject="Before")
        work(channel)
    make_notice(project, subject="The one")
    standin.fail(after_commit_timeout=1, hold_seconds=30)

    assert work(channel, timeout_seconds=0.5) == 0
    assert Delivery.objects.get(notice__subject="The one").is_uncertain
    work(channel, at=LATER)

    (issue,) = repository.issues
    told = [text for text in repository.comments(issue["number"]) if "The one" in text]
    assert len(told) == 1
    assert not Delivery.objects.exclude(state=DeliveryState.SENT).exists()


def test_sender_that_died_after_its_comment_is_followed_without_a_second_one(
    repository: Repository, project: Project
) -> None:
    channel = issue_channel(project)
    notice = make_notice(project)
    work(channel)
    # As a sender leaves it that was killed before it could write down what it had done.
    until = NOW + deliveries.CLAIM
    Delivery.objects.update(state=DeliveryState.PENDING, sent_at=None, claimed_until=until)
    RollingIssue.objects.update(claimed_until=until)

    assert work(channel, at=NOW + timedelta(seconds=60)) == 0
    assert work(channel, at=until + timedelta(seconds=1)) >= 1

    (issue,) = repository.issues
    assert len(repository.comments(issue["number"])) == 1
    assert notice.deliveries.get().state == DeliveryState.SENT


def test_lost_number_is_found_again_by_the_marker(repository: Repository, project: Project) -> None:
    channel = issue_channel(project)
    make_notice(project)
    work(channel)
    RollingIssue.objects.update(number=None)
    make_notice(project)
    work(channel, at=LATER)

    (issue,) = repository.issues
    assert RollingIssue.objects.get().number == issue["number"]
    assert len(repository.comments(issue["number"])) == 2


def test_copied_marker_without_our_label_is_not_adopted(
    repository: Repository, project: Project
) -> None:
    channel = issue_channel(project)
    rolling = RollingIssue.objects.create(
        project=project, family=IssueFamily.NIGHTLY, channel=channel
    )
    marker = f"<!-- evalhub:rolling-issue {rolling.uid} -->"
    repository.ask("POST", "", {"title": "Mine now", "body": marker})
    make_notice(project)
    work(channel)

    assert [issue["title"] for issue in repository.issues] == ["Mine now", "evalhub: nightly runs"]
    assert repository.comments(1) == []


def test_deleted_issue_is_made_anew(repository: Repository, project: Project) -> None:
    channel = issue_channel(project)
    make_notice(project)
    work(channel)
    repository.ask("DELETE", "/1")
    second = make_notice(project)
    work(channel, at=LATER)

    (issue,) = repository.issues
    (comment,) = repository.comments(issue["number"])
    assert str(second.uid) in comment
    assert "**2 going on**" in issue["body"]


def test_number_of_another_issue_is_not_written_into(
    repository: Repository, project: Project
) -> None:
    channel = issue_channel(project)
    other = repository.ask("POST", "", {"title": "A bug", "body": "It does not work."})
    RollingIssue.objects.create(
        project=project, family=IssueFamily.NIGHTLY, channel=channel, number=other["number"]
    )
    make_notice(project)
    work(channel)

    bug, ours = repository.issues
    assert bug["body"] == "It does not work."
    assert repository.comments(bug["number"]) == []
    assert len(repository.comments(ours["number"])) == 1


def test_limits_and_refusals_are_kept_and_shown(
    project: Project, standin: GitHubStandIn, repository: Repository
) -> None:
    channel = issue_channel(project)
    make_notice(project)
    standin.fail(status=429, times=1, retry_after=1800)
    assert work(channel) == 0

    channel.refresh_from_db()
    assert channel.paused_until == NOW + timedelta(minutes=30)
    assert "limits the rate" in channel.last_error
    assert "limits the rate" in Delivery.objects.get().last_error
    assert work(channel, at=NOW + timedelta(minutes=29)) == 0
    standin.fail(status=403, times=1)
    work(channel, at=NOW + timedelta(minutes=31))
    channel.refresh_from_db()
    assert "issues: write" in channel.last_error
    work(channel, at=NOW + timedelta(hours=2))
    assert len(repository.issues) == 1
    channel.refresh_from_db()
    assert (channel.failures, channel.last_error) == (0, "")


def test_repository_without_issues_says_so(project: Project, settings: Settings) -> None:
    channel = issue_channel(project)
    make_notice(project)
    off = Answer(410, {"message": "Issues are disabled for this repo"})
    with scripted_github(off) as url:
        settings.GITHUB_API_URL, settings.GITHUB_TOKEN = url, "ghs_test"
        work(channel)

    channel.refresh_from_db()
    assert "Issues are disabled for this repo. The project's name must be" in channel.last_error


def test_without_credentials_it_waits_and_says_so(project: Project, settings: Settings) -> None:
    settings.GITHUB_TOKEN = None
    channel = issue_channel(project)
    make_notice(project)

    assert work(channel) == 0

    assert Delivery.objects.get().last_error == queries.NO_CREDENTIALS


def test_change_of_another_family_asks_github_nothing(
    repository: Repository, project: Project, standin: GitHubStandIn
) -> None:
    channel = issue_channel(project)
    make_notice(project)
    work(channel)
    before = len(standin.asked(project.name))
    budget = make_notice(project, kind=NoticeKind.BUDGET)
    work(channel)
    asked = [one for one in standin.asked(project.name)[before:] if one.path.endswith("/1")]

    assert asked == []
    assert budget.deliveries.get().state == DeliveryState.SENT
    assert not queries.issues_behind(channel, at=NOW).exists()


def test_next_channel_goes_on_in_the_same_issue(repository: Repository, project: Project) -> None:
    channel = issue_channel(project)
    make_notice(project)
    work(channel)
    channels.disable_channel(channel, actor="user:ada", at=NOW)
    following = make_channel(project, ChannelKind.GITHUB_ISSUE, name="another")
    make_notice(project)
    work(following, at=LATER)

    (issue,) = repository.issues
    assert len(repository.comments(issue["number"])) == 2


def test_test_of_the_channel_leaves_a_closed_issue(
    repository: Repository, project: Project
) -> None:
    channel = issue_channel(project)
    channels.test_channel(channel, actor="user:ada", at=NOW)
    work(channel)

    (issue,) = repository.issues
    assert (issue["title"], issue["state"]) == ("evalhub: tests of this channel", "closed")
    assert "Asked for by user:ada" in repository.comments(1)[0]


@pytest.mark.django_db(transaction=True)
def test_raised_notice_reaches_the_issue_by_itself(
    repository: Repository, project: Project
) -> None:
    issue_channel(project)

    notice = make_notice(project)

    (issue,) = repository.issues
    assert len(repository.comments(issue["number"])) == 1
    notices.resolve_notice(project, kind=NoticeKind.NIGHTLY_RED, key=notice.key, at=NOW)
    assert [issue["state"] for issue in repository.issues] == ["closed"]


@pytest.mark.django_db(transaction=True)
def test_sweep_finds_what_no_message_asked_for(repository: Repository, project: Project) -> None:
    channel = issue_channel(project)
    make_notice(project)
    assert not queries.issue_channels_with_work(at=LATER).exists()
    Channel.objects.filter(pk=channel.pk).update(version=99)

    assert list(queries.issue_channels_with_work(at=LATER)) == [channel]
    sweep_issue_notices()

    assert not queries.issue_channels_with_work(at=LATER).exists()


@pytest.mark.django_db(transaction=True)
def test_several_senders_at_once_add_each_comment_once(
    repository: Repository, project: Project
) -> None:
    channel = issue_channel(project)
    Channel.objects.update(paused_until=NOW + timedelta(days=365_000))
    for _ in range(3):
        make_notice(project)
    Channel.objects.update(paused_until=None)

    at_once([lambda: work(channel)] * 3)
    work(channel, at=LATER)

    (issue,) = repository.issues
    assert len(repository.comments(issue["number"])) == 3
