"""Sentences and templates: mentions, wishes, questions, and what descriptions are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tool_registry.composer.style import UNITS, Style
from tool_registry.composer.vocabulary import Attribute, Entity

_FIELD = re.compile(r"\{([a-z][a-z0-9_.]*)\}")
_OPTION = re.compile(r"\[([^\]]*)\]")


def fields(mention: str) -> list[str]:
    """Return the fields of a mention, `parcel.city` among them."""
    return _FIELD.findall(mention)


def mention(text: str, path: str, references: Iterable[str]) -> str:
    """Return the template of a mention.

    Args:
        text: `my parcel[ to {city}]`.
        path: the parameter that holds the row's key.
        references: attributes of the row that are references: their names are said.
    """
    keys = set(references)

    def full(name: str) -> str:
        return f"{path}.{name}.name" if name in keys else f"{path}.{name}"

    def option(found: re.Match[str]) -> str:
        tests = " and ".join(full(name) for name in fields(found[1]))
        return f"{{% if {tests} %}}{found[1]}{{% endif %}}"

    return _FIELD.sub(lambda f: f"{{{{ {full(f[1])} }}}}", _OPTION.sub(option, text))


def plain(text: str) -> str:
    """Return a mention without what can be left out: `my parcel`."""
    return _FIELD.sub("", _OPTION.sub("", text)).strip()


def stated(attribute: Attribute, path: str) -> str:
    """Return how a wish states an attribute, if its value is there."""
    say = attribute.say or f"with the {attribute.label} {{}}{_unit(attribute)}"
    if attribute.kind == "int":
        say = _counted(say, path)
    return f"{{% if {path} %}} {say.replace('{}', f'{{{{ {path} }}}}')}{{% endif %}}"


def _counted(say: str, path: str) -> str:
    """Return words in which one of something is not several: `for 1 hour`."""
    say = re.sub(r"\{\} (\w+)s\b", rf"{{}} \1{{% if {path} != 1 %}}s{{% endif %}}", say)
    people = f"{{}} {{% if {path} == 1 %}}person{{% else %}}people{{% endif %}}"
    return say.replace("{} people", people)


def changed(attributes: Sequence[Attribute], paths: Mapping[str, str]) -> str:
    """Return how a wish states new values: ` so that the day is … and the time is …`."""
    if len(attributes) == 1:
        return _becomes(attributes[0], paths[attributes[0].name], " so that")
    out = ""
    for number, attribute in enumerate(attributes):
        path = paths[attribute.name]
        earlier = " or ".join(paths[a.name] for a in attributes[:number])
        join = (
            f"{{% if {earlier} %}} and{{% else %}} so that{{% endif %}}" if number else " so that"
        )
        out += _becomes(attribute, path, join)
    return out


def _becomes(attribute: Attribute, path: str, join: str) -> str:
    value = f"{{{{ {path} }}}}{_unit(attribute)}"
    if attribute.kind == "flag":
        clause = attribute.about.removeprefix("Whether ")
        no = f"{join} it is no longer so that {clause}"
        return f"{{% if {path} == 1 %}}{join} {clause}{{% elif {path} == 0 %}}{no}{{% endif %}}"
    said = f"{join} the {attribute.label} {verb(attribute)} {value}"
    return f"{{% if {path} %}}{said}{{% endif %}}"


def _unit(attribute: Attribute) -> str:
    unit = UNITS.get(attribute.unit, attribute.unit)
    return f" {unit}" if unit and unit not in attribute.label else ""


def verb(attribute: Attribute) -> str:
    """Return `are` for an attribute whose name is a plural, otherwise `is`."""
    many = attribute.label.endswith("s") and not attribute.label.endswith("ss")
    return "are" if many and attribute.kind in ("int", "text", "one") else "is"


def question(attribute: Attribute, it: str) -> str:
    """Return how a person asks for an attribute of `it`; empty: nobody does."""
    if attribute.ask:
        return attribute.ask.replace("{it}", it)
    if attribute.kind == "flag":
        return ""
    if attribute.kind == "day" and attribute.name == "day":
        return f"for which day {it} is planned"
    return f"what the {attribute.label} of {it} {verb(attribute)}"


# --- descriptions ----------------------------------------------------------------------------


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence."""
    words = list(words)
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def a(noun: str) -> str:
    """Return a noun with its article."""
    vowel = noun[0].lower() in "aeiou" and not noun.startswith(("uni", "use", "euro", "one", "uti"))
    return f"{'an' if vowel or noun.startswith('hour') else 'a'} {noun}"


def told(attribute: Attribute, style: Style, about: str = "") -> str:
    """Return the description of an attribute as a parameter: meaning, unit, format."""
    about = about or attribute.about
    if attribute.kind == "money":
        return f"{about}, in {style.cents}"
    if attribute.kind == "day":
        return f"{about}, as YYYY-MM-DD"
    if attribute.kind == "time":
        return f"{about}, as HH:MM on the 24-hour clock"
    unit = UNITS.get(attribute.unit, attribute.unit)
    if unit and unit.split()[0] not in about:
        return f"{about}, in {unit}"
    return about


def key_told(entity: Entity, example: str, style: Style, what: str = "") -> str:
    """Return the description of a parameter that takes the key of an entity."""
    what = what or f"the {entity.noun}"
    return (
        f"Identifier of {what}, such as {example}",
        f"Which {entity.noun}: its identifier ({example})" if what == f"the {entity.noun}" else
        f"Identifier of {what} ({example})",
        f"Key of {what}, for example {example}",
    )[style.voice]  # fmt: skip


def states_told(states: Sequence[str]) -> str:
    """Return states as a condition names them: `booked or checked in`."""
    words = [state.replace("_", " ") for state in states]
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def sentence(text: str) -> str:
    """Return text with a capital and a full stop."""
    text = text.strip()
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")
