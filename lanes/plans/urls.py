"""What the plan's page sends; the page itself shows several wings and is the overview's."""

from django.urls import path

from lanes.plans import views

urlpatterns = [
    path("plans/<digest:digest>/close/", views.close_plan, name="plan-close"),
    path("plans/<digest:digest>/reopen/", views.reopen_plan, name="plan-reopen"),
    path("plans/<digest:digest>/cancel/", views.cancel_plan, name="plan-cancel"),
]
