"""Files as commands read them."""

from pathlib import Path

import pytest

from evalhub.protocol.canonical import document_digest
from evalhub.protocol.suite import Suite
from evalhub.runner.documents import read_document, read_json, write_whole
from evalhub.runner.errors import InputError
from tests.evalhub.runner.documents import make_suite, written

YAML = """
schema: evalhub.suite/1
name: support
version: 2026-11-01
scenarios:
  - {id: refund-twice, category: refunds, digest: "sha256:%064d"}
"""


def file_with(tmp_path: Path, content: str | bytes, name: str = "suite.json") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_yaml_and_json_of_one_document_have_one_digest(tmp_path: Path) -> None:
    path = file_with(tmp_path, YAML % 1, "suite.yaml")

    suite = read_document(path, Suite, what="suite")

    # A date stays the text that stands there.
    assert suite.model.version == "2026-11-01"
    assert suite.digest == document_digest(suite.document)
    again = read_document(written(tmp_path, suite.document), Suite, what="suite")
    assert again == suite


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        ('{"a": 1, "a": 2}', "x.json", "the key 'a' stands twice"),
        ("a: 1\na: 2\n", "x.yaml", "the key 'a' stands twice"),
        ("a: {b: 1, b: 2}\n", "x.yml", "the key 'b' stands twice"),
        ("{", "x.json", "is not valid"),
        ("a: [", "x.yaml", "is not valid"),
        (b"\xff\xfe", "x.json", "can't decode byte"),
        (b'\xef\xbb\xbf{"a": 1}', "x.json", "BOM"),
        ("!!python/object/apply:os.system ['true']", "x.yaml", "could not determine a constructor"),
        ("[" * 100_000, "x.json", "is not valid"),
    ],
)
def test_read_refuses_in_one_sentence(
    tmp_path: Path, content: str | bytes, name: str, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        read_json(file_with(tmp_path, content, name), what="suite")

    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_read_names_the_place_what_stood_there_and_what_was_expected(tmp_path: Path) -> None:
    document = {**make_suite().document, "nmae": "x"}

    with pytest.raises(InputError, match=r"/nmae was \"x\"; expected no field of this name"):
        read_document(written(tmp_path, document), Suite, what="suite")


def test_read_tells_each_of_several_faults_on_its_own_line(tmp_path: Path) -> None:
    document = {"naem" if name == "name" else name: v for name, v in make_suite().document.items()}
    scenarios = [{"id": f"s{i}", "category": "x"} for i in range(30)]

    with pytest.raises(InputError) as caught:
        read_document(written(tmp_path, {**document, "scenarios": scenarios}), Suite, what="suite")

    lines = str(caught.value).splitlines()
    assert lines[0].endswith("is not valid:")
    assert lines[1] == '  /naem was "support"; expected no field of this name'
    assert "  /name was absent; expected this field" in lines
    assert len(lines) == 22
    assert lines[-1] == "  and 12 more"


def test_yaml_that_is_none_is_placed_by_line_and_column(tmp_path: Path) -> None:
    path = file_with(tmp_path, "name: support\nversion: [1\nscenarios: []\n", "suite.yaml")

    with pytest.raises(InputError) as caught:
        read_json(path, what="suite")

    assert str(caught.value).startswith(f"The suite {path} is not valid in line 3, column 1")
    assert "\n" not in str(caught.value)
    assert "^" not in str(caught.value)
    assert str(caught.value).count("line") == 1


def test_read_names_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.json cannot be read: No such file"):
        read_json(tmp_path / "absent.json", what="plan")


def test_write_leaves_nothing_half_behind(tmp_path: Path) -> None:
    folder = tmp_path / "a file"
    folder.write_text("in the way")

    with pytest.raises(InputError, match="cannot be written"):
        write_whole(folder / "x", b"data")

    assert [path.name for path in tmp_path.iterdir()] == ["a file"]
