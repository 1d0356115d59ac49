"""Every address, by room. Pages at the root, the wire below /api/v1."""

from django.urls import include, path, register_converter

from evalhub.web import views
from evalhub.web.converters import DigestConverter, ProjectConverter

register_converter(DigestConverter, "digest")
register_converter(ProjectConverter, "project")

handler400 = views.bad_request
handler403 = views.forbidden
handler404 = views.not_found
handler500 = views.server_error

api = [
    path("", include("evalhub.web.api_urls")),
    path("", include("lanes.projects.api_urls")),
    path("", include("lanes.budget.api_urls")),
    path("", include("lanes.plans.api_urls")),
    path("", include("evidence.store.api_urls")),
    path("", include("evidence.reader.api_urls")),
    path("", include("gates.verdicts.api_urls")),
    path("", include("gates.decisions.api_urls")),
]
urlpatterns = [
    path("healthz", views.healthz, name="healthz"),
    path("api/v1/", include(api)),
    path("", include("lanes.projects.urls")),
    path("", include("lanes.plans.urls")),
    path("", include("evidence.store.urls")),
    path("", include("evidence.reader.urls")),
    path("", include("gates.overview.urls")),
]
