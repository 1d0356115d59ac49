"""Endpoints of this room."""

from django.urls import URLPattern, path

from gates.decisions import api

urlpatterns: list[URLPattern] = [
    path(
        "plans/<digest:digest>/conclusion", api.ConclusionEndpoint.as_view(), name="api-conclusion"
    ),
    path("plans/<digest:digest>/export", api.ExportEndpoint.as_view(), name="api-export"),
]
