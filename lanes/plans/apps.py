"""Django's registration of this room."""

from django.apps import AppConfig


class LanesPlansConfig(AppConfig):
    name = "lanes.plans"
    label = "lanes_plans"
