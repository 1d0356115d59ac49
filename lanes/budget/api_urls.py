"""Endpoints of this room."""

from django.urls import path

from lanes.budget import api

urlpatterns = [
    path("projects/<project:project>/pools/<str:name>", api.PoolEndpoint.as_view(), name="api-pool")
]
