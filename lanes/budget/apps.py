"""Django's registration of this room."""

from django.apps import AppConfig


class LanesBudgetConfig(AppConfig):
    name = "lanes.budget"
    label = "lanes_budget"
