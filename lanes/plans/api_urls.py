"""Endpoints of this room."""

from django.urls import path

from lanes.plans.api import attempts, documents, endings, plans, probes, schedules

urlpatterns = [
    path(
        "projects/<project:project>/suite",
        documents.SuiteEndpoint.as_view(),
        name="api-suite",
    ),
    path(
        "projects/<project:project>/policy",
        documents.PolicyEndpoint.as_view(),
        name="api-policy",
    ),
    path(
        "projects/<project:project>/schedules",
        schedules.SchedulesEndpoint.as_view(),
        name="api-schedules",
    ),
    path(
        "projects/<project:project>/schedules/<str:suite>",
        schedules.ScheduleEndpoint.as_view(),
        name="api-schedule",
    ),
    path("plans", plans.PlansEndpoint.as_view(), name="api-plans"),
    path("plans/<digest:digest>", plans.PlanEndpoint.as_view(), name="api-plan"),
    path("plans/<digest:digest>/probes", probes.ProbesEndpoint.as_view(), name="api-probes"),
    path("plans/<digest:digest>/close", endings.CloseEndpoint.as_view(), name="api-close"),
    path("plans/<digest:digest>/reopen", endings.ReopenEndpoint.as_view(), name="api-reopen"),
    path("plans/<digest:digest>/cancel", endings.CancelEndpoint.as_view(), name="api-cancel"),
    path(
        "plans/<digest:digest>/lanes/<str:lane>/attempts",
        attempts.AttemptsEndpoint.as_view(),
        name="api-attempts",
    ),
    path(
        "attempts/<str:key>/token",
        attempts.AttemptTokenEndpoint.as_view(),
        name="api-attempt-token",
    ),
    path(
        "attempts/<str:key>/heartbeat",
        attempts.HeartbeatEndpoint.as_view(),
        name="api-heartbeat",
    ),
    path("attempts/<str:key>/budget", attempts.BudgetEndpoint.as_view(), name="api-budget"),
]
