"""Endpoints of this room."""

from django.urls import path

from evidence.reader import api

urlpatterns = [
    path("runs", api.RunsEndpoint.as_view(), name="api-runs"),
    path("runs/<int:run_id>", api.RunEndpoint.as_view(), name="api-run"),
    path(
        "runs/<int:run_id>/transcript", api.TranscriptEndpoint.as_view(), name="api-run-transcript"
    ),
]
