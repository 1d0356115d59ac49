"""Pages of this room."""

from django.urls import path

from gates.overview import views

urlpatterns = [
    path("", views.home, name="home"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", views.metrics_page, name="metrics"),
    path("plans/", views.plans, name="plans"),
    path("plans/<digest:digest>/", views.plan, name="plan"),
    path("runs/<int:run_id>/baseline/", views.run_baseline, name="run-baseline"),
]
