"""Django's registration of this room."""

from django.apps import AppConfig


class GatesOverviewConfig(AppConfig):
    name = "gates.overview"
    label = "gates_overview"
