import sys

import pytest

from synth.core.errors import BadInput, UnknownName
from synth.core.prompts import Prompts, prompt_hash, prompts, render


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A package of prompt files, importable as `some_prompts`."""
    package = tmp_path / "some_prompts"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "greet.j2").write_text("Hello {{ name }}!\n", encoding="utf-8")
    (package / "outer.j2").write_text('{% include "greet" %} Bye.', encoding="utf-8")
    (package / "broken.j2").write_text('{% include "nowhere" %}', encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield package
    sys.modules.pop("some_prompts", None)


def test_a_prompt_is_filled_in_and_stripped(folder):
    assert Prompts("some_prompts").render("greet", name="Ada") == "Hello Ada!"
    assert Prompts("some_prompts").names() == ("broken", "greet", "outer")


def test_a_value_that_looks_like_a_template_is_text(folder):
    assert Prompts("some_prompts").render("greet", name="{{ 7 * 7 }}") == "Hello {{ 7 * 7 }}!"


def test_a_missing_value_is_named_with_its_file_and_what_was_given(folder):
    with pytest.raises(BadInput) as caught:
        Prompts("some_prompts").render("greet", nam="Ada")
    assert str(caught.value) == ("prompt some_prompts/greet.j2: 'name' is undefined (given: nam)")


def test_an_unknown_prompt_suggests_close_names(folder):
    with pytest.raises(UnknownName, match="unknown prompt 'gret' \\(did you mean 'greet'\\?\\)"):
        Prompts("some_prompts").render("gret")
    with pytest.raises(UnknownName, match="nowhere"):
        Prompts("some_prompts").render("broken")


@pytest.mark.parametrize("name", ["../greet", "/etc/passwd", "greet.j2", "", "a/b"])
def test_a_name_cannot_leave_the_folder(folder, name):
    with pytest.raises(UnknownName):
        Prompts("some_prompts").source(name)


def test_the_hash_follows_the_text_of_the_prompt_and_of_what_it_includes(folder):
    before = {name: Prompts("some_prompts").hash(name) for name in ("greet", "outer")}
    assert before == {name: Prompts("some_prompts").hash(name) for name in ("greet", "outer")}
    (folder / "greet.j2").write_text("Hi {{ name }}!\n", encoding="utf-8")
    after = {name: Prompts("some_prompts").hash(name) for name in ("greet", "outer")}
    assert before["greet"] != after["greet"]
    assert before["outer"] != after["outer"]
    assert len(set(before.values()) | set(after.values())) == 4


def test_loaders_are_shared_and_the_functions_read_the_prompts_of_synth():
    assert prompts() is prompts("synth.prompts")
    assert render(
        "agent_tagged", job="clerk", subject="the bank", rules=["Be kind."], clock=None, policy=""
    ) == ("<role>clerk, the bank</role>\n<conduct>\nBe kind.\n</conduct>")
    assert prompt_hash("agent_tagged") == Prompts("synth.prompts").hash("agent_tagged")
