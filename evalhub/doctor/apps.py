"""Django's registration of this app."""

from django.apps import AppConfig


class DoctorConfig(AppConfig):
    name = "evalhub.doctor"
    label = "evalhub_doctor"
