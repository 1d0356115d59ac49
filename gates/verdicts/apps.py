"""Django's registration of this room."""

from django.apps import AppConfig


class GatesVerdictsConfig(AppConfig):
    name = "gates.verdicts"
    label = "gates_verdicts"
