"""Endpoints of this room."""

from django.urls import URLPattern, path

from gates.verdicts import api

urlpatterns: list[URLPattern] = [
    path(
        "projects/<project:project>/baselines",
        api.BaselinesEndpoint.as_view(),
        name="api-baselines",
    ),
]
