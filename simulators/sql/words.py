"""How people say things: spoken forms of values, and the templates of an application.

Templates may come from a model. They render in Jinja2's immutable sandbox with `StrictUndefined`,
and before that they are held to a small part of the language: no calls, no assignments, no
products, a few harmless filters, loops only over names. Such a template does work proportional to
its own length and to the arguments of one call, so size limits bound its time too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from simulators.sql.saying import Writer, closure
from synth.core.errors import BadApplication
from synth.core.speech import ENGLISH, Speech
from synth.core.types import Scalar

MAX_CLAUSE = 600
"""Characters of a rendered clause."""
MAX_POLICY = 20_000
"""Characters of a rendered policy."""
MAX_SOURCE = 20_000
"""Characters of a template."""

_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-([0-2]\d|3[01])")
_DATETIME = re.compile(r"\d{4}-(0[1-9]|1[0-2])-([0-2]\d|3[01])[T ]([01]\d|2[0-3]):[0-5]\d(:\d\d)?")
_BLANKS = re.compile(r"[ \t\r\n\f\v]+")
"""White space that is folded; a non-breaking space is meant."""
_SNAKE = re.compile(r"[a-z]+(_[a-z]+)+")


_IRREGULAR = {"people": "person", "children": "child", "staff": "member of staff"}


def is_date(value: object) -> bool:
    """Return whether `value` is text such as `2026-03-02`."""
    return isinstance(value, str) and len(value) == 10 and bool(_DATE.fullmatch(value))


def is_datetime(value: object) -> bool:
    """Return whether `value` is text such as `2026-03-02T09:00:00`."""
    return isinstance(value, str) and 16 <= len(value) <= 19 and bool(_DATETIME.fullmatch(value))


def spoken(
    value: Scalar,
    *,
    currency: str | None = None,
    boolean: bool = False,
    speech: Speech = ENGLISH,
) -> str:
    """Return `value` as a person says it.

    Args:
        value: a column's value or an argument.
        currency: given where the value is money in integer minor units.
        boolean: the value is a yes or a no although it may be stored as 0 or 1.
        speech: the language.
    """
    if boolean or isinstance(value, bool):
        return speech.truth(bool(value))
    if currency is not None and isinstance(value, int):
        return speech.money(value, currency)
    if is_date(value):
        return speech.date(str(value))
    if is_datetime(value):
        return speech.moment(str(value))
    if isinstance(value, str) and _SNAKE.fullmatch(value):
        return value.replace("_", " ")
    return str(value)


def _one_word(one: str, other: str) -> bool:
    """Return whether two characters side by side belong to one word, one being the word's own.

    Chinese does not part its words, so none of its characters holds on to its neighbour.
    """
    chinese = any("\u3400" <= char <= "\u9fff" for char in one + other)
    return not chinese and (one.isalnum() and other.isalnum())


def occurs(text: str, inside: str) -> bool:
    """Return whether `text` stands in `inside` as whole words; case does not matter."""
    text, inside = text.lower(), inside.lower()
    start = inside.find(text)
    while start >= 0 and text:
        end = start + len(text)
        before, after = inside[start - 1 : start], inside[end : end + 1]
        if not _one_word(before, text[0]) and not _one_word(text[-1], after):
            return True
        start = inside.find(text, start + 1)
    return False


def noun(name: str) -> str:
    """Return how people call what a parameter or reference names: `home_branch_id` is a branch."""
    return re.sub(r"_ids?$", "", name).replace("_", " ")


def singular(table: str) -> str:
    """Return the noun of one row of `table`: `copies` -> `copy`, `boxes` -> `box`."""
    word = table.replace("_", " ")
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch")):
        if word.endswith(ending):
            return word[: -len(ending)] + instead
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """A value inside a template: compares as the value, prints as a person says it."""

    value: Scalar
    text: str

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Spoken) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < other)

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > other)


class Unsaid(Exception):
    """A template printed something that nobody can say: a missing or a withheld value."""


class Withheld:
    """Stands in a template for a fact the user keeps back: false, and never printed."""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        raise Unsaid


# --- templates -------------------------------------------------------------------------------

_NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Getattr, nodes.Getitem,
    nodes.Const, nodes.If, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or,
    nodes.Not, nodes.Test, nodes.Filter, nodes.For, nodes.Concat, nodes.List, nodes.Tuple,
    nodes.Keyword,
)  # fmt: skip
_FILTERS = frozenset({
    "capitalize", "count", "default", "first", "join", "last", "length", "list", "lower", "map",
    "sort", "title", "trim", "upper",
})  # fmt: skip
_LOOPS = 2


def _finalize(value: Any) -> Any:
    if value is None:
        raise Unsaid
    return value


class Speaking:
    """Base of our own objects in templates: they answer for every public name themselves."""

    __slots__ = ()


class _Sandbox(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        # The inherited way asks a dozen questions about Python's own types; paths through rows are
        # nearly all that a template asks for.
        if isinstance(obj, Speaking) and not attribute.startswith("_"):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)


_SANDBOX = _Sandbox(
    undefined=jinja2.StrictUndefined,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_finalize,
    cache_size=0,
)
_SANDBOX.globals.clear()


@dataclass(frozen=True, slots=True)
class _Compiled:
    """What is made of a source, whatever application it stands in."""

    write: Writer | None
    code: jinja2.Template | None
    names: frozenset[str]
    printed: frozenset[str]


@lru_cache(maxsize=20_000)
def _compiled(source: str) -> _Compiled:
    """Compile a template; a thousand evolved applications say most things alike."""
    if "{" not in source:
        return _Compiled(lambda values, emit: emit(source), None, frozenset(), frozenset())
    tree = _SANDBOX.parse(source)
    _check(tree, "")
    write = closure(tree, _SANDBOX)
    return _Compiled(
        write,
        None if write else _SANDBOX.from_string(tree),
        frozenset(_used(tree) if write else meta.find_undeclared_variables(tree)),
        frozenset(_printed(tree)),
    )


class Words:
    """One compiled template of an application.

    Args:
        source: Jinja2 text, trusted with nothing.
        where: path in the file, for messages.
        limit: characters that a rendering may have.

    Raises:
        BadApplication: not Jinja2, or outside the part of it that applications may use.
    """

    __slots__ = ("_code", "_plain", "_write", "limit", "names", "printed", "where")

    names: frozenset[str]
    """Values the template uses."""
    printed: frozenset[str]
    """Those it prints whatever happens."""

    def __init__(self, source: str, *, where: str, limit: int = MAX_CLAUSE) -> None:
        self.where, self.limit = where, limit
        if len(source) > MAX_SOURCE:
            raise BadApplication(
                f"template of {len(source)} characters",
                where=where,
                remedy=f"at most {MAX_SOURCE}",
            )
        try:
            compiled = _compiled(source)
        except BadApplication as error:
            raise BadApplication(error.what, where=where, remedy=error.remedy) from error
        except jinja2.TemplateError as error:
            raise BadApplication(
                f"not a template: {error.message}", where=where, remedy="see docs/extending.md"
            ) from error
        # A template without expressions is its own text: most requests cost nothing to render.
        self._plain = None if "{" in source else source.strip()
        self._write, self._code = compiled.write, compiled.code
        self.names, self.printed = compiled.names, compiled.printed

    def render(self, values: Mapping[str, Any]) -> str:
        """Fill the template in and fold its white space (clauses are one line).

        Raises:
            BadApplication: it names something that does not exist, or became too long.
            Unsaid: it prints a missing or withheld value.
        """
        text = self._plain if self._plain is not None else self._render(values)
        return _BLANKS.sub(" ", text).strip(" ")

    def render_page(self, values: Mapping[str, Any]) -> str:
        """Fill the template in and keep its lines.

        Raises:
            BadApplication: it names something that does not exist, or became too long.
            Unsaid: it prints a missing or withheld value.
        """
        return self._render(values).strip()

    def _render(self, values: Mapping[str, Any]) -> str:
        try:
            return "".join(self._parts(values))
        except BadApplication as error:
            # Rows complain about paths without knowing which template asked.
            raise BadApplication(
                error.what, where=error.where or self.where, remedy=error.remedy
            ) from error
        except jinja2.TemplateError as error:
            raise BadApplication(
                f"cannot be said: {error.message}", where=self.where, remedy="check the names"
            ) from error
        except (TypeError, ValueError, LookupError) as error:
            raise BadApplication(
                f"cannot be said: {error}", where=self.where, remedy="check types in comparisons"
            ) from error

    def _parts(self, values: Mapping[str, Any]) -> list[str]:
        parts: list[str] = []
        left = self.limit

        def emit(part: str) -> None:
            nonlocal left
            left -= len(part)
            if left < 0:
                raise BadApplication(
                    f"renders to more than {self.limit} characters",
                    where=self.where,
                    remedy="say it shorter",
                )
            parts.append(part)

        if self._write is not None:
            self._write(values, emit)
        elif self._code is not None:
            for part in self._code.generate(values):
                emit(part)
        return parts


def _targets(node: nodes.Node) -> Iterator[str]:
    if isinstance(node, nodes.Name):
        yield node.name
    for child in node.iter_child_nodes():
        yield from _targets(child)


def _used(node: nodes.Node, own: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the names that come from outside; `own` are those of the loops around.

    As `meta.find_undeclared_variables`, which generates the code of the template to find out.
    """
    if isinstance(node, nodes.Name) and node.name not in own:
        yield node.name
    if isinstance(node, nodes.For):
        yield from _used(node.iter, own)
        own = own | {"loop", *_targets(node.target)}
    for child in node.iter_child_nodes(exclude=("iter",)):
        yield from _used(child, own)


def _check(tree: nodes.Node, where: str, loops: int = 0) -> None:
    for child in tree.iter_child_nodes():
        _allowed(child, where)
        if isinstance(child, nodes.For):
            simple = isinstance(child.iter, nodes.Name | nodes.Getattr)
            if child.recursive or not simple or loops >= _LOOPS:
                raise BadApplication(
                    "loops run over a parameter, at most two deep",
                    where=where,
                    remedy="write {% for x in parameter %}",
                )
        _check(child, where, loops + isinstance(child, nodes.For))


def _printed(tree: nodes.Node) -> Iterator[str]:
    if isinstance(tree, nodes.Name):
        yield tree.name
    for child in tree.iter_child_nodes(exclude=("test", "iter")):
        if not isinstance(child, nodes.If | nodes.CondExpr | nodes.For | nodes.Filter):
            yield from _printed(child)


def _allowed(node: nodes.Node, where: str) -> None:
    if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
        raise BadApplication(
            f"filter {node.name!r} is not available in templates",
            where=where,
            remedy=f"use one of {', '.join(sorted(_FILTERS))}",
        )
    if not isinstance(node, _NODES):
        raise BadApplication(
            f"{type(node).__name__.lower()!r} is not available in templates",
            where=where,
            remedy="use names, paths, filters, if and for",
        )
