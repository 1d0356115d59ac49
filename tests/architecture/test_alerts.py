"""Metrics have one list: the code's. README's table and the alert rules name these and no others."""

import re
from typing import Any

import yaml

from gates.overview.metrics import DESCRIPTIONS
from tests.architecture.sources import ROOT
from tests.architecture.test_documentation import first_column

ALERTS = ROOT / "docker" / "prometheus-alerts.yaml"
# What PromQL itself knows in these rules.
_LABELS = {"sweep", "operation"}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_table_of_metrics_equals_the_code() -> None:
    assert first_column("Metrics") == set(DESCRIPTIONS)


def test_every_rule_rests_on_metrics_that_exist() -> None:
    named = {name for rule in rules() for name in re.findall(r"evalhub_\w+", rule["expr"])}

    assert named <= set(DESCRIPTIONS)
    # A number that nobody is woken by is one to look at.
    assert {name for name in DESCRIPTIONS if "oldest" in name or "silence" in name} - named == {
        "evalhub_sweep_silence_seconds"
    }


def test_every_rule_is_whole() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert re.fullmatch(r"\d+m", rule["for"])
        assert all(rule["annotations"][part].endswith(".") for part in ("summary", "fix"))
        expression = rule["expr"]
        assert expression.count("(") == expression.count(")")
        words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"evalhub_\w+|\de\d", "", expression)))
        assert words <= {"absent", "min", "max", "by", "or"} | _LABELS


def test_labels_in_sentences_are_those_that_the_rule_keeps() -> None:
    for rule in rules():
        used = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        kept = set(re.findall(r"by \((\w+)\)", rule["expr"]))
        # Without an aggregation every label stays.
        assert used == kept or "(" not in rule["expr"]
