"""Whether a value is affirmed where it stands, in the words of any language."""

import pytest

from synth.core.errors import BadInput
from synth.core.reading import STATEMENTS, checked, reading
from synth.judge.wording import stated


def affirmed(text):
    """Say whether the value in braces is."""
    start, end = text.index("{"), text.index("}") - 1
    return stated(text.replace("{", "").replace("}", ""), start, end)


@pytest.mark.parametrize(
    "text",
    [
        "Leading Without Authority starts on {3 March}.",
        "The course Leading Without Authority starts on {3 March}.",
        'The novel "Never Let Me Go" is due on {3 March}.',
        'The talk "No, or never, if ever" is on {3 March}.',
        "Your order of Gone But Not Forgotten costs {12.50 EUR}.",
        "It is not before {3 March}, and no more than {5}.".replace("{5}", "5"),
        "Der Film Ohne Dich läuft am {3. März}.",
        "El libro «Nunca, o casi» vence el {3 de marzo}.",
    ],
)
def test_a_name_with_a_negation_denies_nothing(text):
    assert affirmed(text)


@pytest.mark.parametrize(
    "text",
    [
        "It is NOT on {3 March}.",
        "It is not on {3 March}.",
        "Not Tuesday, {3 March}.",
        "No, not {3 March}.",
        "Maybe {3 March}.",
        "Is it {3 March}?",
        "If it is {3 March}, fine.",
        "It is {3 March} or 4 March.",
        "{3 March} is wrong.",
        "Es ist nicht der {3. März}.",
        "Vielleicht am {3. März}.",
        "No es el {3 de marzo}.",
        "El {3 de marzo} no es.",
    ],
)
def test_what_is_denied_guessed_or_asked_is_not_affirmed(text):
    assert not affirmed(text)


def test_every_kind_of_statement_is_known_in_every_language():
    assert all(reading(kind).pattern for kind in STATEMENTS)
    with pytest.raises(BadInput, match=r"xx/judged.yaml: missing, or nobody's: .*denies.*, more"):
        checked({"more": []}, "xx/judged.yaml")
