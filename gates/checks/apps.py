"""Django's registration of this room."""

from django.apps import AppConfig


class GatesChecksConfig(AppConfig):
    name = "gates.checks"
    label = "gates_checks"
