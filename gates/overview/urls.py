"""Pages of this room."""

from django.urls import path

from gates.overview import views

urlpatterns = [
    path("", views.home, name="home"),
    path("plans/", views.plans, name="plans"),
]
