"""The pages that sign people in and out."""

import re

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from lanes.projects.models import AuditEntry, SignInLink
from lanes.projects.operations import sign_in
from tests.lanes import factories

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"


def test_sign_in_goes_where_the_person_wanted(client: Client) -> None:
    factories.make_user("ada", password=PASSWORD)

    page = client.get("/sign-in/?next=/plans/?suite=support")
    response = client.post(
        "/sign-in/", {"username": "ada", "password": PASSWORD, "next": "/plans/?suite=support"}
    )

    assert 'name="next" value="/plans/?suite=support"' in page.content.decode()
    assert (response.status_code, response.headers["Location"]) == (302, "/plans/?suite=support")
    assert client.session[SESSION_KEY] == str(User.objects.get().pk)
    assert AuditEntry.objects.get(action="user.sign_in").after == "password"


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example/",
        "///evil.example/",
        "/\\evil.example",
        "\\/evil.example",
        "javascript:alert(1)",
        "http:evil.example",
        "/\t/evil.example",
        "plans/",
        "",
    ],
)
def test_sign_in_goes_to_local_paths_only(client: Client, wanted: str) -> None:
    factories.make_user("ada", password=PASSWORD)

    response = client.post("/sign-in/", {"username": "ada", "password": PASSWORD, "next": wanted})

    assert response.headers["Location"] == reverse("home")


def test_failure_does_not_say_who_exists(client: Client) -> None:
    factories.make_user("ada", password=PASSWORD)
    factories.make_user("gone", password=PASSWORD)
    User.objects.filter(username="gone").update(is_active=False)
    User.objects.create_superuser("linked")

    pages = []
    for name, password in [
        ("ada", "wrong"),
        ("nobody", PASSWORD),
        ("gone", PASSWORD),
        ("linked", "x"),
    ]:
        response = client.post("/sign-in/", {"username": name, "password": password})
        assert response.status_code == 422
        text = response.content.decode().replace(f'value="{name}"', "")
        pages.append(re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"', "", text))

    assert len(set(pages)) == 1
    assert "do not fit together" in pages[0]
    assert SESSION_KEY not in client.session


def test_empty_fields_are_named(client: Client) -> None:
    response = client.post("/sign-in/", {})

    assert response.status_code == 422
    assert response.content.decode().count("This field is required.") == 2


def test_password_never_comes_back(client: Client) -> None:
    response = client.post("/sign-in/", {"username": "ada", "password": "typed-by-mistake"})

    assert "typed-by-mistake" not in response.content.decode()


def test_session_gets_a_new_key_at_sign_in(client: Client) -> None:
    factories.make_user("ada", password=PASSWORD)
    session = client.session
    session["planted"] = True
    session.save()
    planted = session.session_key
    client.cookies["evalhub_session"] = str(planted)

    client.post("/sign-in/", {"username": "ada", "password": PASSWORD})

    assert client.cookies["evalhub_session"].value != planted


def test_forms_need_their_csrf_token() -> None:
    client = Client(enforce_csrf_checks=True)
    secret = sign_in.create_first_sign_in_link(timezone.now())

    for path in ["/sign-in/", f"/sign-in/link/{secret}/", "/sign-out/"]:
        assert client.post(path).status_code == 403

    assert SignInLink.objects.get().used_at is None


def test_person_who_is_signed_in_is_sent_on(client: Client) -> None:
    client.force_login(factories.make_user())

    response = client.get("/sign-in/?next=/plans/")

    assert response.headers["Location"] == "/plans/"


def test_link_survives_being_looked_at(client: Client) -> None:
    secret = sign_in.create_first_sign_in_link(timezone.now())

    client.get(f"/sign-in/link/{secret}/")
    response = client.get(f"/sign-in/link/{secret}/")

    assert response.status_code == 200
    assert "signs you in once" in response.content.decode()
    assert SESSION_KEY not in client.session
    assert response.headers["Referrer-Policy"] == "same-origin"
    assert "no-store" in response.headers["Cache-Control"]


def test_link_signs_in_when_the_button_is_pressed(client: Client) -> None:
    secret = sign_in.create_first_sign_in_link(timezone.now())

    response = client.post(f"/sign-in/link/{secret}/")

    assert (response.status_code, response.headers["Location"]) == (302, reverse("home"))
    assert client.session[SESSION_KEY] == str(User.objects.get().pk)


def test_used_and_unknown_links_say_the_same(client: Client) -> None:
    secret = sign_in.create_first_sign_in_link(timezone.now())
    client.post(f"/sign-in/link/{secret}/")
    stranger = Client()

    used = stranger.get(f"/sign-in/link/{secret}/")
    unknown = stranger.get("/sign-in/link/unknown/")
    pressed = stranger.post(f"/sign-in/link/{secret}/")

    assert (used.status_code, unknown.status_code, pressed.status_code) == (410, 410, 410)
    assert used.content == unknown.content
    assert "unknown, was used, or is too old" in pressed.content.decode()
    assert SESSION_KEY not in stranger.session


def test_sign_out_takes_a_post(client: Client) -> None:
    client.force_login(factories.make_user())

    assert client.get("/sign-out/").status_code == 405
    assert SESSION_KEY in client.session
    response = client.post("/sign-out/")
    assert response.headers["Location"] == "/sign-in/"
    assert SESSION_KEY not in client.session
