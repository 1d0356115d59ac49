"""What only a browser can show: scripts that stay text, schemes, charts, pages without JavaScript."""

from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import ConsoleMessage, Dialog, Page, expect

from evidence.store.models import Item, Run
from lanes.plans.models import Plan
from lanes.projects.models import Role
from tests.browser.conftest import CheckAccess, SignIn
from tests.evidence.factories import judge_line, make_refusal
from tests.evidence.reader.factories import make_run, send, turn
from tests.gates.factories import make_baseline, make_conclusion, make_gated_project, steady
from tests.lanes.factories import make_attempt, make_plan, make_user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HOSTILE = (
    '<script>alert("text")</script><img src=x onerror=alert(1)><a href="javascript:alert(2)">here</a>'
    "[link](javascript:alert(3)) \x1b[31mred\x1b[0m\x1b]8;;http://evil.example\x07link\x1b]8;;\x07"
    " \u202egnp.exe\u202c </pre></details><svg onload=alert(4)> {{ constructor }}"
)


@pytest.fixture
def complaints(page: Page) -> list[str]:
    """Collect what must never happen: dialogs, broken policies, failing scripts."""
    return watched(page)


def watched(page: Page) -> list[str]:
    found: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" or "Content Security Policy" in message.text:
            found.append(message.text)

    def refuse(dialog: Dialog) -> None:
        found.append(dialog.message)
        dialog.dismiss()

    page.on("console", note)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("dialog", refuse)
    page.add_init_script(
        "addEventListener('securitypolicyviolation', e => console.error('violation ' + e.blockedURI))"
    )
    return found


def hostile_run() -> Run:
    return make_run(
        "refund-twice",
        outcome="failed",
        turns=[
            turn(1, HOSTILE, role="user", agent=HOSTILE[:400]),
            turn(2, kind="tool_call", tool={"name": HOSTILE[:400], "arguments": '{"a":NaN}'}),
            turn(3, HOSTILE + "".join(f"{number:x} " for number in range(20_000)), role="tool"),
        ],
        judged=[judge_line(0.0, rationale=HOSTILE, cites=[1, 3])],
        failure={"category": "x", "root_cause": HOSTILE, "turns": [2], "by": "rules"},
        files={"<script>.html": b"<script>alert(5)</script>"},
    )


def regressed_plan() -> Plan:
    project = make_gated_project()
    make_baseline(project)
    return make_conclusion(project, steady("candidate", drop=2.0)).plan


def plan_address(plan: Plan) -> str:
    return reverse("plan", args=[plan.digest])


def test_hostile_transcript_stays_inert(page: Page, sign_in: SignIn, complaints: list[str]) -> None:
    run = hostile_run()
    sign_in(page, make_user(project=run.plan.project))

    page.goto(reverse("run", args=[run.pk]))
    expect(page.get_by_role("article", name="Turn 1, user")).to_contain_text("<script>alert")
    for fold in page.locator("details.fold > summary").all():
        fold.click()
    page.goto(reverse("run-turn", args=[run.pk, 3]))
    page.goto(reverse("item", args=[Item.objects.get(run=run, kind="file").pk]))

    expect(page.get_by_text("<script>alert(5)</script>")).to_be_visible()
    assert complaints == []
    assert page.locator("main img, main iframe, main svg[onload]").count() == 0


def test_plan_page_draws_its_forest_plot_within_the_policy(
    page: Page, sign_in: SignIn, complaints: list[str]
) -> None:
    plan = regressed_plan()
    sign_in(page, make_user(project=plan.project))

    page.goto(plan_address(plan))

    expect(page.get_by_role("img", name="Forest plot of the effects")).to_be_visible()
    expect(page.locator(".js-plotly-plot .trace.scatter")).not_to_have_count(0)
    # Without its style rules the drawing would hang below the figure.
    assert (
        page.locator(".main-svg").first.evaluate("e => getComputedStyle(e).position") == "absolute"
    )
    assert complaints == []


def test_charts_take_the_colors_of_the_scheme(scheme_page: Page, sign_in: SignIn) -> None:
    plan = regressed_plan()
    sign_in(scheme_page, make_user(project=plan.project))

    scheme_page.goto(plan_address(plan))
    bars = scheme_page.locator(".js-plotly-plot .errorbar path")
    expect(bars).not_to_have_count(0)

    drawn = bars.last.evaluate("e => getComputedStyle(e).stroke")
    used = scheme_page.locator('.badge[data-tone="bad"]').first.evaluate(
        "e => getComputedStyle(e).color"
    )
    assert drawn == used


def test_theme_button_turns_light_to_dark_and_is_remembered(page: Page, sign_in: SignIn) -> None:
    plan = make_plan()
    sign_in(page, make_user(project=plan.project))
    page.goto(reverse("plans"))
    paper = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(paper)

    page.get_by_role("button", name="Dark").click()
    after = page.evaluate(paper)
    page.reload()

    assert before != after
    assert page.evaluate(paper) == after
    expect(page.get_by_role("button", name="Light")).to_be_visible()


def test_plan_and_transcript_read_without_javascript(plain_page: Page, sign_in: SignIn) -> None:
    plan = regressed_plan()
    run = hostile_run()
    reader = make_user(project=plan.project)
    sign_in(plain_page, reader)

    plain_page.goto(plan_address(plan))
    expect(plain_page.get_by_role("heading", name="What to do next")).to_be_visible()
    expect(plain_page.get_by_role("table").first).to_contain_text("Regression")
    expect(plain_page.locator("svg.bar").first).to_be_visible()
    expect(plain_page.locator("figure")).to_be_hidden()

    sign_in(plain_page, make_user(project=run.plan.project))
    plain_page.goto(reverse("runs", args=[run.plan.digest]))
    plain_page.get_by_label("Outcome", exact=True).select_option("failed")
    plain_page.get_by_role("button", name="Filter").click()
    plain_page.get_by_role("link", name="refund-twice").click()
    expect(plain_page.get_by_role("heading", name="Transcript")).to_be_visible()
    plain_page.get_by_role("link", name="turn 3").first.click()
    assert plain_page.url.endswith("#turn-3")


def test_any_turn_opens_by_its_link(page: Page, sign_in: SignIn) -> None:
    run = make_run(turns=[turn(number, f"text {number}") for number in range(1, 1_001)])
    sign_in(page, make_user(project=run.plan.project))

    page.goto(f"{reverse('run', args=[run.pk])}?from=800#turn-900")

    expect(page.locator("#turn-900")).to_be_in_viewport()
    page.get_by_label("Turn").first.fill("17")
    page.get_by_role("button", name="Go").first.click()
    expect(page.locator("#turn-17")).to_be_in_viewport()


def test_open_plan_updates_itself(page: Page, sign_in: SignIn) -> None:
    plan = make_plan()
    sign_in(page, make_user(project=plan.project))
    page.goto(plan_address(plan))
    coverage = page.get_by_role("region", name="Coverage by lane", exact=True)
    expect(coverage).to_contain_text("no lane has begun yet")

    make_run(plan=plan)

    expect(coverage).to_contain_text("1 of 3 runs are here", timeout=15_000)
    expect(page.get_by_role("heading", name="1 of 3 runs are here")).to_be_visible()


def pages() -> dict[str, Callable[[Run], str]]:
    return {
        "plans": lambda run: reverse("plans"),
        "plan": lambda run: plan_address(run.plan),
        "runs": lambda run: reverse("runs", args=[run.plan.digest]),
        "run": lambda run: reverse("run", args=[run.pk]),
        "turn": lambda run: reverse("run-turn", args=[run.pk, 1]),
        "item": lambda run: reverse("item", args=[Item.objects.filter(run=run)[0].pk]),
        "lane": lambda run: reverse("lane", args=[run.plan.digest, run.lane.name]),
        "quarantine": lambda run: reverse("quarantine", args=[run.plan.digest]),
        "error": lambda run: reverse("run", args=[run.pk + 1]),
    }


@pytest.mark.parametrize("name", pages())
def test_page_is_accessible_in_both_schemes_and_fits_a_phone(
    scheme_page: Page, sign_in: SignIn, assert_accessible: CheckAccess, name: str
) -> None:
    run = hostile_run()
    make_refusal(run.attempt)
    send(run.attempt, {"lane/logs/agent.1.log": b"one\ntwo\n"})
    sign_in(scheme_page, make_user(project=run.plan.project, role=Role.TRIAGER))

    scheme_page.goto(pages()[name](run))

    assert_accessible(scheme_page)
    scheme_page.set_viewport_size({"width": 360, "height": 800})
    assert scheme_page.evaluate("document.documentElement.scrollWidth") <= 360


def test_concluded_plan_is_accessible_in_both_schemes(
    scheme_page: Page, sign_in: SignIn, assert_accessible: CheckAccess
) -> None:
    plan = regressed_plan()
    sign_in(scheme_page, make_user(project=plan.project))

    scheme_page.goto(plan_address(plan))
    expect(scheme_page.locator(".js-plotly-plot .trace.scatter")).not_to_have_count(0)

    assert_accessible(scheme_page)
    scheme_page.set_viewport_size({"width": 360, "height": 800})
    assert scheme_page.evaluate("document.documentElement.scrollWidth") <= 360


def test_skip_link_leads_past_the_header_by_keyboard(page: Page, sign_in: SignIn) -> None:
    attempt = make_attempt()
    sign_in(page, make_user(project=attempt.lane.plan.project))
    page.goto(plan_address(attempt.lane.plan))

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.get_by_role("main")).to_be_focused()
