"""Endpoints of this room."""

from django.urls import path

from evidence.store import api

urlpatterns = [
    path(
        "attempts/<str:attempt>/segments/<int:seq>",
        api.SegmentEndpoint.as_view(),
        name="api-segment",
    ),
    path("attempts/<str:attempt>/seal", api.SealEndpoint.as_view(), name="api-seal"),
]
