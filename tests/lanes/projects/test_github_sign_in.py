"""Sign-in with GitHub: a real web process that is configured for it, and GitHub's side on loopback."""

import re
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.programs.evalhub import Evalhub, EvalhubProcess
from tests.programs.oauth import OAuthStandIn, serving_oauth

pytestmark = pytest.mark.slow


class House(NamedTuple):
    installation: Evalhub
    web: EvalhubProcess
    github: OAuthStandIn
    browsers: list[httpx.Client]
    cookies: list[httpx.Cookies]

    def manage(self, *arguments: str) -> str:
        return self.installation.manage(*arguments)

    def administrator(self) -> "Browser":
        """Return the browser of the administrator, who comes by a one-time link at first."""
        browser = Browser(self)
        if self.cookies:
            browser.client.cookies.update(self.cookies[0])
            return browser
        path = urlsplit(self.manage("sign_in_link").strip()).path
        browser.get(path)
        assert browser.post(path).status_code == 302
        self.cookies.append(browser.client.cookies)
        return browser

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(
            self.installation.folder / "web" / "data" / "evalhub.sqlite3"
        ) as database:
            return database.execute(query).fetchall()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("github-sign-in")
    with serving_oauth() as github:
        installation = Evalhub(
            folder,
            {
                "EVALHUB_GITHUB_URL": github.url,
                "EVALHUB_GITHUB_OAUTH_CLIENT_ID": "Iv1.test",
                "EVALHUB_GITHUB_OAUTH_CLIENT_SECRET": "app-secret",
                # The web process's own: it has the only database.
                "EVALHUB_DATA": str(folder / "web" / "data"),
            },
        )
        # Not from the tables that other tests share: here there are some more.
        installation.manage("migrate", "--no-input", "--skip-checks", "--verbosity", "0")
        installation.manage("collectstatic", "--no-input", "--verbosity", "0")
        installation.manage("create_project", "acme/agent")
        with installation.process("web") as web:
            house = House(installation, web, github, browsers=[], cookies=[])
            yield house
            for browser in house.browsers:
                browser.close()


class Browser:
    """Somebody who goes from page to page, and to GitHub and back."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.client = httpx.Client(base_url=house.web.url, trust_env=False)
        house.browsers.append(self.client)

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def post(self, path: str, **fields: str) -> httpx.Response:
        token = self.client.cookies.get("evalhub_csrf") or ""
        return self.client.post(
            path,
            data={**fields, "csrfmiddlewaretoken": token},
            headers={"Origin": self.house.web.url},
        )

    def by_github(
        self, person: dict[str, Any], page: str, *, process: str = "login"
    ) -> httpx.Response:
        """Press the button on a page, and come back from GitHub as somebody."""
        shown = self.get(page)
        policy = shown.headers["Content-Security-Policy"]
        assert f"form-action 'self' {self.house.github.url};" in policy
        begun = self.post(f"/sign-in/github/?process={process}&next={page}")
        leads = urlsplit(begun.headers["Location"])
        asked = {name: value for name, (value,) in parse_qs(leads.query).items()}
        assert f"{leads.scheme}://{leads.netloc}" == self.house.github.url
        assert asked["redirect_uri"] == f"{self.house.web.url}/sign-in/github/callback/"
        # No address of e-mail is asked for, and the exchange is bound to this browser.
        assert "user:email" not in asked.get("scope", "")
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{person['id']}-{len(self.house.github.exchanged)}"
        self.house.github.people[code] = person
        return self.get(f"/sign-in/github/callback/?code={code}&state={asked['state']}")


def invited(house: House, role: str = "VIEWER") -> Browser:
    """Return a browser that has followed a fresh invitation."""
    admin = house.administrator()
    admin.get("/projects/acme/agent/members/")
    made = admin.post("/projects/acme/agent/members/", guest="Grace", role=role, days="1", email="")
    found = re.search(r"/invitations/evi_[\w-]+/", made.text)
    assert found is not None, made.text
    browser = Browser(house)
    assert browser.get(found[0]).status_code == 302
    return browser


def test_invited_person_comes_in_by_number_whatever_the_name_is(house: House) -> None:
    guest = invited(house)
    person = {"id": 4711, "login": "grace", "email": "grace@example.org"}

    back = guest.by_github(person, "/invitation/")
    accepted = guest.post("/invitation/")
    later = Browser(house)
    renamed = later.by_github({"id": 4711, "login": "hopper", "email": None}, "/sign-in/")

    assert (back.status_code, back.headers["Location"]) == (302, "/invitation/")
    assert accepted.headers["Location"] == "/projects/acme/agent/notices/"
    assert renamed.status_code == 302
    assert "grace" in later.get("/account/").text
    assert house.rows("SELECT username, email FROM auth_user WHERE username = 'grace'") == [
        ("grace", "")
    ]
    actions = "SELECT action, after FROM lanes_projects_auditentry WHERE actor = 'user:grace'"
    assert ("user.create", '{"way": "github 4711"}') in house.rows(actions)
    assert house.rows(actions).count(("user.sign_in", '"github"')) == 2
    # `house` outlives the test: the client secret went to GitHub alone.
    assert house.github.exchanged[0]["client_secret"] == ["app-secret"]
    assert "code_verifier" in house.github.exchanged[0]


def test_stranger_with_a_members_name_and_address_is_nobody(house: House) -> None:
    invited(house).by_github(
        {"id": 5001, "login": "lovelace", "email": "l@example.org"}, "/invitation/"
    )
    before = house.rows("SELECT count(*) FROM auth_user")

    stranger = Browser(house)
    refused = stranger.by_github(
        {"id": 5002, "login": "lovelace", "email": "l@example.org"}, "/sign-in/"
    )

    assert refused.status_code == 403
    assert "No account here belongs to this account of GitHub" in refused.text
    assert stranger.get("/account/").status_code == 302
    assert house.rows("SELECT count(*) FROM auth_user") == before


def test_account_is_connected_by_its_owner(house: House) -> None:
    admin = house.administrator()

    connected = admin.by_github({"id": 6001, "login": "root"}, "/account/", process="connect")
    again = Browser(house)
    again.by_github({"id": 6001, "login": "root"}, "/sign-in/")

    assert (connected.status_code, connected.headers["Location"]) == (302, "/account/")
    assert "administer this instance" in again.get("/account/").text
    told = "SELECT actor, after FROM lanes_projects_auditentry WHERE action = 'user.connect'"
    assert house.rows(told) == [("user:admin", '{"github": "6001"}')]


def test_closed_account_stays_closed(house: House) -> None:
    invited(house).by_github({"id": 7001, "login": "gone"}, "/invitation/")
    with sqlite3.connect(
        house.installation.folder / "web" / "data" / "evalhub.sqlite3"
    ) as database:
        database.execute("UPDATE auth_user SET is_active = 0 WHERE username = 'gone'")

    browser = Browser(house)
    refused = browser.by_github({"id": 7001, "login": "gone"}, "/sign-in/")

    assert refused.status_code == 403
    assert browser.get("/account/").status_code == 302


@pytest.mark.parametrize(
    "query", ["error=access_denied", "code=never-given", "code=x&state=forged"]
)
def test_no_identity_is_said_so(house: House, query: str) -> None:
    browser = Browser(house)
    browser.get("/sign-in/")
    begun = browser.post("/sign-in/github/?process=login")
    (state,) = parse_qs(urlsplit(begun.headers["Location"]).query)["state"]
    state = "" if "state" in query else f"&state={state}"

    answer = browser.get(f"/sign-in/github/callback/?{query}{state}")

    assert answer.status_code == 403
    assert "GitHub did not say who you are" in answer.text


def test_sign_in_is_begun_by_our_own_form_alone(house: House) -> None:
    assert Browser(house).get("/sign-in/github/").status_code == 405
    assert Browser(house).post("/sign-in/github/").status_code == 403
