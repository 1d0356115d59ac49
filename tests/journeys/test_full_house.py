"""The main job where one machine is not enough: PostgreSQL, Redis, S3, two of each of our programs.

Everything is real and is started as docker/compose.yaml starts it; the lanes are the demo's, each the
installed `evalhub` command in a process of its own.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import psycopg
import pytest

from evalhub.demo import story
from evalhub.demo.programs import Client, Programs, quiet_environment
from evalhub.runner import clock
from evidence.store.storage import S3Store
from tests.journeys.balancer import Balancer
from tests.programs.evalhub import Evalhub, EvalhubProcess
from tests.programs.github import GitHubStandIn
from tests.programs.postgres import PostgresServer
from tests.programs.processes import Process, descendants, survivors, wait_for
from tests.programs.redis import RedisServer
from tests.programs.s3 import S3Server
from tests.programs.server import ROOT

pytestmark = [pytest.mark.journey, pytest.mark.timeout(600)]

LANE_SECONDS = 240


class House(NamedTuple):
    """All programs of an installation while they run."""

    postgres: PostgresServer
    s3: S3Server
    github: GitHubStandIn
    webs: list[EvalhubProcess]
    workers: list[EvalhubProcess]
    programs: Programs
    client: Client

    def number(self, statement: str) -> int:
        """Return what a query over the database counts."""
        with psycopg.connect(self.postgres.url) as connection:
            (number,) = connection.execute(statement).fetchone() or (0,)
        return int(number)


@contextmanager
def full_house(folder: Path) -> Iterator[House]:
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer(folder / "postgres", tcp=True, durable=True))
        redis = stack.enter_context(RedisServer(folder / "redis"))
        s3 = stack.enter_context(S3Server(folder / "s3"))
        github = stack.enter_context(GitHubStandIn(folder / "github"))
        (folder / "tmp").mkdir()
        evalhub = Evalhub(
            folder / "evalhub",
            *(program.environment for program in (postgres, redis, s3, github)),
            {"TMPDIR": str(folder / "tmp"), "EVALHUB_SWEEP_SECONDS": "5"},
        )
        evalhub.prepare()
        webs, workers = (
            [evalhub.process(role, name=f"{role}-{number}") for number in (1, 2)]
            for role in ("web", "worker")
        )
        processes = [*webs, *workers, evalhub.process("beat")]
        for process in processes:
            stack.callback(process.stop)
            process.launch()
        balancer = stack.enter_context(Balancer(*(web.port for web in webs)))
        (folder / "client").mkdir()
        programs = Programs(ROOT, folder / "client", quiet_environment(folder / "client"))
        stack.callback(programs.stop)
        for process in processes:
            process.wait_until_ready()
        flags = ["--repository-id", str(story.REPOSITORY_ID), "--default-branch", "main"]
        flags.append("--checks-for-unverified")
        made = json.loads(evalhub.manage("create_project", story.PROJECT, *flags, "--json"))
        client = Client(programs, balancer.url, made["token"])
        yield House(postgres, s3, github, webs, workers, programs, client)


def told_story(house: House) -> tuple[story.Told, story.Told]:
    """Tell of a commit that becomes the baseline, then of one that is worse in one category."""
    client, folder = house.client, house.programs.logs
    client.ask("suite", "put", str(story.SUITE), "--project", story.PROJECT)
    client.ask("policy", "put", str(story.POLICY), "--project", story.PROJECT)
    guards = story.observed_guards(house.programs, at=clock.now())
    github = story.GitHub(house.github.url, house.github.token)

    def told(chapter: story.Chapter) -> story.Told:
        return story.told_chapter(
            client,
            github,
            chapter._replace(epochs=1),  # Enough for this defect, in a third of the time.
            folder=folder,
            guards=guards,
            watch=wait_for_lanes,
        )

    base, head = story.chapters(1)
    baseline = told(base)
    client.ask("baseline", "adopt", baseline.digest, "--reason", "looked at")
    return baseline, told(head)


def wait_for_lanes(chapter: story.Chapter, lanes: list[story.Lane]) -> None:
    assert len(lanes) == 4
    over = wait_for(lambda: all(lane.running.is_over for lane in lanes), LANE_SECONDS)
    assert over, [(chapter.name, lane.name, lane.phase, lane.done) for lane in lanes]


def test_two_of_each_program_do_the_main_job(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    with full_house(tmp_path) as house:
        family = descendants(os.getpid()) - before
        baseline, candidate = told_story(house)
        assert_conclusions(baseline, candidate)
        assert_one_check_each(house.github, baseline, candidate)
        assert_transcripts_read_alike(house, candidate)
        assert_objects_in_the_bucket_alone(house)
        for worker in house.workers:
            assert "succeeded in" in worker.said
    assert_nothing_is_left(family, house, tmp_path)


def assert_conclusions(baseline: story.Told, candidate: story.Told) -> None:
    assert baseline.conclusion["conclusion"] == "action_required"
    assert candidate.conclusion["conclusion"] == "failure"
    worse = {
        row["category"]
        for row in candidate.conclusion["verdicts"]
        if (row["rubric"], row["verdict"]) == ("resolved", "REGRESSION")
    }
    assert worse == {None, story.DEFECT}
    for told in (baseline, candidate):
        assert all(lane["sealed"] and not lane["missing"] for lane in told.lanes)
        assert story.items(told.lanes)["refused"] == 0


def assert_one_check_each(github: GitHubStandIn, *told: story.Told) -> None:
    """Many tasks on two workers asked for it; GitHub has one check of each commit."""
    for one in told:
        (run,) = github.check_runs(story.PROJECT, one.chapter.commit)
        assert run["conclusion"] == one.conclusion["conclusion"]
    assert github.writes(story.PROJECT).count("POST") == len(told)


def assert_transcripts_read_alike(house: House, told: story.Told) -> None:
    runs = house.client.ask("runs", told.digest)["runs"]
    assert len(runs) == sum(lane["total"] for lane in told.lanes)
    with httpx.Client(
        headers={"Authorization": f"Bearer {house.client.token}"}, trust_env=False
    ) as http:
        for run in runs:
            first, second = (
                http.get(f"{web.url}/api/v1/runs/{run['id']}/transcript").raise_for_status().json()
                for web in house.webs
            )
            assert first["turns"]
            assert first == second
    shown = house.client.ask("transcript", str(runs[0]["id"]))
    assert [turn["text"] for turn in shown["turns"]]


def assert_objects_in_the_bucket_alone(house: House) -> None:
    segments = house.number("SELECT count(*) FROM evidence_store_segment")
    assert len(list(S3Store(house.s3.place).keys())) >= segments > 0
    for process in (*house.webs, *house.workers):
        assert not (process.folder / "data" / "objects").exists()


def assert_nothing_is_left(family: set[Process], house: House, folder: Path) -> None:
    assert len(family) > 10
    assert survivors(family) == []
    assert list((folder / "tmp").iterdir()) == []
    assert not house.postgres.cluster.exists()
