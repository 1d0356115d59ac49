"""Django's registration of this room."""

from django.apps import AppConfig


class LanesFidelityConfig(AppConfig):
    name = "lanes.fidelity"
    label = "lanes_fidelity"
