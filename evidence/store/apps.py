"""Django's registration of this room."""

from django.apps import AppConfig


class EvidenceStoreConfig(AppConfig):
    name = "evidence.store"
    label = "evidence_store"
