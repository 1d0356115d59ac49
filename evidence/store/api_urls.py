"""Endpoints of this room."""

from django.urls import path

from evidence.store import api

urlpatterns = [
    path(
        "attempts/<str:attempt>/segments/<int:seq>",
        api.SegmentEndpoint.as_view(),
        name="api-segment",
    ),
    path(
        "projects/<str:owner>/<str:name>/imports",
        api.ImportsEndpoint.as_view(),
        name="api-imports",
    ),
    path(
        "projects/<str:owner>/<str:name>/storage",
        api.StorageEndpoint.as_view(),
        name="api-storage",
    ),
    path(
        "projects/<str:owner>/<str:name>/retention",
        api.RetentionEndpoint.as_view(),
        name="api-retention",
    ),
    path("plans/<digest:digest>/pin", api.PinEndpoint.as_view(), name="api-pin"),
    path("plans/<digest:digest>/purges", api.PurgesEndpoint.as_view(), name="api-purges"),
    path("attempts/<str:attempt>/seal", api.SealEndpoint.as_view(), name="api-seal"),
]
