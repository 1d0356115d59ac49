"""Pages of this room."""

from django.urls import path

from evidence.reader import views as reader
from gates.overview import views

urlpatterns = [
    path("", views.home, name="home"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", views.metrics_page, name="metrics"),
    path("plans/", views.plans, name="plans"),
    path("plans/<digest:digest>/", views.plan, name="plan"),
    # The page of evidence is told from here what it was compared with: it knows no gates.
    path("runs/<int:run_id>/", reader.run, {"baseline_of": views.baseline_of}, name="run"),
    path("runs/<int:run_id>/baseline/", views.run_baseline, name="run-baseline"),
]
