"""Endpoints of this room."""

from django.urls import path

from evalhub.web import api

urlpatterns = [
    path("schema/", api.SchemasEndpoint.as_view(), name="api-schemas"),
    path("schema/<str:document>.json", api.SchemaEndpoint.as_view(), name="api-schema"),
]
