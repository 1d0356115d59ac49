"""Django's registration of this room."""

from django.apps import AppConfig


class EvidenceReaderConfig(AppConfig):
    name = "evidence.reader"
    label = "evidence_reader"
