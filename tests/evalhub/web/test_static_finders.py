"""plotly.js runs under the content security policy: its style rules come as a file of their own."""

import re
from pathlib import Path

import plotly
import pytest
from django.conf import settings
from django.contrib.staticfiles import finders

from evalhub.web.static_finders import PlotlyFinder, plotly_styles

SCRIPT = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text()


def test_styles_are_the_rules_that_the_script_would_insert() -> None:
    styles = plotly_styles(SCRIPT)

    assert (
        ".js-plotly-plot .plotly .main-svg{position:absolute;top:0;left:0;pointer-events:none;}"
        in styles
    )
    assert ".plotly-notifier{font-family:" in styles
    rules = re.findall(r"^[^{}]+\{[^{}]*\}$", styles, flags=re.MULTILINE)
    assert len(rules) == len(styles.splitlines()) > 50


def test_script_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="style rules"):
        plotly_styles("var nothing = 1;")


def test_both_files_are_found_and_collected() -> None:
    for name in ("plotly/plotly.min.js", "plotly/plotly.css"):
        found = finders.find(name)
        assert isinstance(found, str)
        assert Path(found).stat().st_size > 1000
    assert finders.find("plotly/other.js") is None
    assert [name for name, _ in PlotlyFinder().list(None)] == ["plotly.min.js", "plotly.css"]


def test_plan_page_holds_every_id_that_keeps_the_script_from_writing_styles() -> None:
    template = Path(settings.BASE_DIR, "templates/gates/overview/plan_detail.html").read_text()

    wanted = re.findall(r'if\(!document\.getElementById\("([0-9a-f]{64})"\)\)', SCRIPT)

    assert wanted
    for name in wanted:
        assert f'id="{name}"' in template
