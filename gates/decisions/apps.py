"""Django's registration of this room."""

from django.apps import AppConfig


class GatesDecisionsConfig(AppConfig):
    name = "gates.decisions"
    label = "gates_decisions"
