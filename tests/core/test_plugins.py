import sys

import pytest

from synth.core.errors import BadInput, UnknownName
from synth.core.plugins import Plugins


@pytest.fixture
def folder(tmp_path, monkeypatch):
    package = tmp_path / "pluginfolder"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "good_one.py").write_text("THING = 42\n", encoding="utf-8")
    (package / "broken.py").write_text("import no_such_module\n", encoding="utf-8")
    (package / "_private.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Plugins("thing", "pluginfolder", "THING")
    for name in [name for name in sys.modules if name.startswith("pluginfolder")]:
        del sys.modules[name]


def test_a_file_in_the_folder_is_a_plugin_and_listing_imports_nothing(folder):
    assert folder.names() == ("broken", "good-one")
    assert "pluginfolder.broken" not in sys.modules
    assert folder.get("good-one") == 42


def test_a_misspelt_name_lists_close_ones(folder):
    with pytest.raises(UnknownName, match="did you mean 'good-one'"):
        folder.get("god-one")


def test_a_broken_plugin_is_reported_with_its_module(folder):
    with pytest.raises(BadInput, match=r"pluginfolder\.broken.*no_such_module"):
        folder.get("broken")


def test_two_plugins_of_one_name_are_an_error(folder, tmp_path):
    dist = tmp_path / "other-1.dist-info"
    dist.mkdir()
    metadata = "Metadata-Version: 2.1\nName: other\nVersion: 1\n"
    (dist / "METADATA").write_text(metadata, encoding="utf-8")
    (dist / "entry_points.txt").write_text(
        "[toolloom.thing]\ngood-one = elsewhere:THING\n", encoding="utf-8"
    )
    with pytest.raises(BadInput, match="two plug-ins called 'good-one'"):
        folder.names()
