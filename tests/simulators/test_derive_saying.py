"""Templates as closures: they say what Jinja2 says, errors and silences included."""

from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import meta

from simulators.sql.load import applications, load_application
from simulators.sql.saying import closure
from simulators.sql.words import _SANDBOX, Speaking, Spoken, Unsaid, Withheld, Words
from synth.core.errors import BadApplication

WORKSHOP = Path(__file__).parent / "data" / "workshop.yaml"


class Thing(Speaking):
    """A row whose columns and references are whatever is asked for."""

    def __init__(self, values):
        self.values = values

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self.values(name)

    def __str__(self):
        return "thing"


def templates():
    for application in (*map(load_application, sorted(applications())), load_application(WORKSHOP)):
        for tool in application.tools.values():
            yield from tool.intent.values()
            for words in tool.questions.values():
                yield from words.values()
        yield application.policy


TEMPLATES = sorted(set(templates()))


def outcome(render):
    try:
        return "".join(render())
    except (jinja2.TemplateError, Unsaid, TypeError, ValueError, BadApplication) as error:
        return type(error).__name__, str(error)


def same(source, values):
    tree = _SANDBOX.parse(source)
    write = closure(tree, _SANDBOX)
    if write is None:
        return False
    code = _SANDBOX.from_string(tree)

    def mine():
        parts = []
        write(values(), parts.append)
        return parts

    assert outcome(mine) == outcome(lambda: code.generate(values()))
    words = Words(source, where="here")
    assert words.names == meta.find_undeclared_variables(_SANDBOX.parse(source))
    return True


def test_nearly_every_template_of_the_applications_is_a_closure():
    found = [closure(_SANDBOX.parse(text), _SANDBOX) is not None for text in TEMPLATES]
    assert sum(found) >= 0.9 * len(found)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from(["stolen", "sms", "points", "a b", ""]),
    st.builds(Spoken, st.integers(0, 2), st.just("two")),
    st.builds(Withheld),
)


@given(st.data())
def test_a_closure_says_what_jinja_says(data):
    source = data.draw(st.sampled_from(TEMPLATES))
    names = sorted(meta.find_undeclared_variables(_SANDBOX.parse(source)))
    chosen = {}
    for name in names:
        kind = data.draw(st.sampled_from(["plain", "row", "list", "rows", "missing"]))
        plain = {c: data.draw(VALUES) for c in ("name", "day", "rest")}

        def column(asked, plain=plain):
            if asked in ("item", "kind", "id"):
                return None
            return Thing(column) if asked in ("doctor", "account") else plain.get(asked, "red")

        things = [Thing(column)] * data.draw(st.integers(0, 3))
        made = {"plain": plain["rest"], "row": Thing(column), "list": list(plain.values())}
        made["rows"] = things
        if kind != "missing":
            chosen[name] = made[kind]
    same(source, lambda: dict(chosen))


@pytest.mark.parametrize(
    "source",
    [
        "{{ a }} and {{ a | upper }}",
        "{% if a == 2 %}two{% elif a in b %}in{% else %}no{% endif %}",
        "{% for x in b %}{{ loop.index }}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
        "{% for x in b %}{% for y in b %}{{ loop.index0 }}{{ x }}{% endfor %}{{ loop.first }}"
        "{{ loop.length }}{% endfor %}",
        "{{ 'one' if a > 1 or not b else 'other' }} {{ b | length }}",
        "{% for a in b %}{{ a }}{% endfor %}{{ a }}",
        "{{ a.real }}",
        "{{ a.__class__ }}",
        "{{ nobody }}",
        "{% if nobody %}x{% endif %}",
        "{% for x in a %}{{ x }}{% endfor %}",
        "{{ none }}",
        "{{ a and b }}{{ a or b }}",
    ],
)
@pytest.mark.parametrize("a", [0, 1, 2, "two", None])
def test_every_part_of_the_language_says_what_jinja_says(source, a):
    assert same(source, lambda: {"a": a, "b": [1, "two"]})


@pytest.mark.parametrize(
    "source",
    [
        "{{ b | join('+') }}",
        "{{ a is none }}",
        "{{ a ~ 1 }}",
        "{% for x in b %}{{ loop.revindex }}{{ x }}{% endfor %}",
    ],
)
def test_what_is_no_closure_is_rendered_all_the_same(source):
    assert closure(_SANDBOX.parse(source), _SANDBOX) is None
    expected = _SANDBOX.from_string(source).render(a=1, b=["x", "y"])
    assert Words(source, where="here").render({"a": 1, "b": ["x", "y"]}) == expected
