"""The audit on its page and as a file."""

import csv
import io
import json
from datetime import timedelta

import pytest
from django.test import Client

from lanes.projects.models import AuditEntry, Project, Role
from lanes.projects.operations.audit import record_audit
from lanes.projects.queries import audit
from lanes.projects.queries.audit import Filter
from tests.lanes import factories
from tests.lanes.factories import NOW

pytestmark = pytest.mark.django_db
PAGE = "/projects/acme/agent/audit/"


@pytest.fixture
def project() -> Project:
    project = factories.make_project("acme/agent")
    AuditEntry.objects.all().delete()
    return project


@pytest.fixture
def reader(project: Project, client: Client) -> Client:
    client.force_login(factories.make_user("ada", project=project, role=Role.MAINTAINER))
    return client


def make_entry(project: Project | None, number: int = 0, **fields: str) -> AuditEntry:
    wanted = {"actor": "user:ada", "action": "plan.cancel", "subject": f"plan {number}", **fields}
    return record_audit(project, **wanted, after={"n": number}, at=NOW + timedelta(hours=number))


def file_of(reader: Client, query: str) -> str:
    return reader.get(f"{PAGE}file?{query}").getvalue().decode()


def test_pages_go_back_by_key(project: Project, reader: Client) -> None:
    for number in range(120):
        # Of one moment, in part: the number decides.
        make_entry(project, number // 40)
    seen: list[int] = []
    before: int | None = None
    while True:
        page = audit.audit_page(project, Filter(), before=before, limit=50)
        seen += [entry.pk for entry in page.entries]
        before = page.next
        if before is None:
            break

    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) == 120
    first = reader.get(PAGE).content.decode()
    assert first.count("<code>plan.cancel</code>") == 50
    assert f"?before={seen[49]}" in first


def test_filters(project: Project, reader: Client) -> None:
    make_entry(project, 1)
    make_entry(project, 30, actor="token:evh_1234… CI")
    make_entry(project, 60, action="plans.other")
    make_entry(factories.make_project(), 90)

    def shown(query: str) -> set[int]:
        lines = file_of(reader, query).splitlines()
        return {
            entry["after"]["n"] for line in lines if "n" in (entry := json.loads(line))["after"]
        }

    assert shown("") == {1, 30, 60}
    assert shown("actor=token:evh_1234… CI") == {30}
    assert shown("area=plan") == {1, 30}
    assert shown("since=2026-11-30") == {30, 60}
    assert shown("until=2026-11-29") == {1}
    assert reader.get(f"{PAGE}?since=yesterday").status_code == 400
    assert reader.get(f"{PAGE}?area=nothing").status_code == 400
    assert reader.get(f"{PAGE}?before=0").status_code == 400


def test_csv_holds_no_formula(project: Project, reader: Client) -> None:
    live = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1"]
    for text in live:
        record_audit(project, actor="user:x", action="plan.cancel", subject=text, before=-1, at=NOW)

    rows = list(csv.DictReader(io.StringIO(file_of(reader, "form=csv"), newline="")))[1:]

    assert {row["subject"] for row in rows} == {f"'{text}" for text in live}
    assert {row["before"] for row in rows} == {"'-1"}


def test_exports_are_streamed_and_written_down(project: Project, reader: Client) -> None:
    for number in range(1201):
        make_entry(project, number)

    response = reader.get(f"{PAGE}file?form=jsonl&actor=user:ada")

    assert response.streaming
    assert response.headers["Content-Disposition"] == (
        'attachment; filename="audit-acme-agent.jsonl"'
    )
    lines = [json.loads(line) for line in response.getvalue().decode().splitlines()]
    assert len(lines) == 1202
    (export,) = [line for line in lines if line["action"] == "audit.export"]
    assert export["after"] == {"form": "jsonl", "actor": "user:ada"}


def test_instance_has_what_belongs_to_no_project(project: Project, client: Client) -> None:
    make_entry(project, 1, subject="of the project")
    make_entry(None, 2, action="user.sign_in", subject="of the instance")
    admin = factories.make_user("admin")
    admin.is_superuser = True
    admin.save()
    client.force_login(admin)

    page = client.get("/audit/").content.decode()

    assert "of the instance" in page
    assert "of the project" not in page


def test_hostile_words_are_shown_as_text(project: Project, reader: Client) -> None:
    make_entry(project, subject="<script>alert(1)</script>\u202e")

    page = reader.get(PAGE).content.decode()

    assert "<script>alert" not in page
    assert "\u202e" not in page
