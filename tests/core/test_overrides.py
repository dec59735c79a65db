"""What `--set` understands, and what it says of a value that a shell or a person got wrong."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.core.config import load_config
from synth.core.errors import BadConfig


def refusal(override):
    """Return how an override is refused, if it is."""
    try:
        load_config(overrides=[override])
    except BadConfig as error:
        return error
    return None


@pytest.mark.parametrize("said", ["hotel", "'hotel'", "['hotel']", "my_app.yaml", "a b/c-d.yaml"])
def test_one_application_is_a_list_of_one_however_a_shell_left_it(said):
    found = load_config(overrides=[f"generate.applications={said}"]).generate.applications
    assert found == (said.strip("[]'"),)


def test_a_file_may_name_one_application_too(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[generate]\napplications = 'hotel'\n", encoding="utf-8")
    assert load_config(path).generate.applications == ("hotel",)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        (  # what bash makes of --set generate.applications=['my_app.yaml']
            "generate.applications=[my_app.yaml]",
            "not a list of TOML: [my_app.yaml] "
            "(quote the whole argument: --set \"generate.applications=['my_app.yaml']\")",
        ),
        (
            "generate.applications=[bank, hotel",
            "quote the whole argument: --set \"generate.applications=['bank', 'hotel']\"",
        ),
        (
            "generate.languages={en=1, de=}",
            "not a table of TOML: {en=1, de=} "
            '(quote the whole argument: --set "generate.languages=',
        ),
        (
            "generate.applications=3",
            "generate.applications: Input should be a valid list "
            "(for instance --set \"generate.applications=['hotel']\")",
        ),
        (
            "generate.languages=de",
            "generate.languages: Input should be a valid table "
            '(for instance --set "generate.languages={en=0.5, de=0.5}")',
        ),
        (
            "generate.mix=lookup",
            'for instance --set "generate.mix={lookup=0.5, single_write=0.5}"',
        ),
        (
            "generate.tools=8",
            "generate.tools: Input should be a valid list "
            '(for instance --set "generate.tools=[6, 12]")',
        ),
        ("generate.tools=[3]", 'for instance --set "generate.tools=[6, 12]"'),
        ("generate.tools=[3,5,7]", 'for instance --set "generate.tools=[6, 12]"'),
        ("models.agent=mine", "(for instance --set models.agent.model=...)"),
        ("generate.errors=0.2", "(for instance --set generate.errors.rate=...)"),
        ("models.agent.temperature=1", "Field required (add --set models.agent.model=...)"),
        ("generate.languages={xx=1}", "not spoken here: xx; known: de, en"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_toml_with_an_argument_that_would_be_right(
    override, says
):
    with pytest.raises(BadConfig) as caught:
        load_config(overrides=[override])
    said = str(caught.value)
    assert says in said
    assert not {"tuple", "dictionary", "dict", "instance of"} & set(said.split())


def test_the_arguments_that_are_proposed_are_right():
    for wrong in ("applications=3", "languages=de", "mix=lookup", "tools=8"):
        with pytest.raises(BadConfig) as caught:
            load_config(overrides=[f"generate.{wrong}"])
        proposed = shlex.split(caught.value.remedy.removeprefix("for instance "))
        assert proposed[0] == "--set"
        load_config(overrides=[proposed[1]])


@given(st.text(max_size=40))
def test_no_value_is_a_crash(text):
    for key in ("generate.applications", "generate.tools", "models.agent", text):
        refused = refusal(f"{key}={text}")
        assert refused is None or refused.where
