"""The part of the lint that reads what an application says in other languages than English.

A language is whole or absent: what it lacks would be said in English in the middle of a sentence.
Only questions may be left out, each by itself; they are not asked then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from simulators.sql.engine import Engine
from simulators.sql.finding import Finding
from simulators.sql.graph import leaves
from simulators.sql.words import Words
from synth.core.application import Application, Wording
from synth.core.errors import BadApplication
from synth.core.hearing import hearing, languages

_BLOCKS = re.compile(r"^(?:\s*{%.*?%})+\s*", re.S)


def lint_languages(engine: Engine) -> Iterator[Finding]:
    """Yield what is wrong with the words of other languages: all that they name has to exist."""
    application = engine.application
    for language, words in application.languages.items():
        where = f"{application.application}: languages.{language}"
        if language not in languages():
            remedy = f"known: {', '.join(languages())}"
            yield Finding("error", where, "nobody here speaks it", remedy)
            continue
        for name in _strange(engine, words):
            yield Finding("error", where, f"nothing is called {name!r}", "correct it, or remove it")
        for name in _missing(engine, words):
            yield Finding(
                "error", where, f"no words for {name}", "add them, or remove the language"
            )
        yield from _templates(application, words, where)
        yield from _questions(words, language, where)


def _strange(engine: Engine, words: Wording) -> Iterator[str]:
    application, tools = engine.application, engine.application.tools
    known = {f"{name}.{c}" for name, table in engine.tables.items() for c in table.columns}
    known |= {f"{name}.{p}" for name, tool in tools.items() for p in tool.parameters}
    yield from sorted(words.labels.keys() - known)
    yield from sorted(words.rules.keys() - {rule.name for rule in application.policy_rules})
    yield from sorted((words.intents.keys() | words.questions.keys()) - tools.keys())
    for name, questions in words.questions.items():
        columns = {column.name for column in engine.results.get(name, ())}
        yield from (f"{name}.{column}" for column in sorted(questions.keys() - columns))


def _missing(engine: Engine, words: Wording) -> Iterator[str]:
    """Yield what users would have to say in English: wishes, rules, labels and words of lists."""
    application = engine.application
    spoken = {name: tool for name, tool in application.tools.items() if tool.intent}
    yield from (f"intents.{name}" for name in sorted(spoken.keys() - words.intents.keys()))
    rules = {rule.name for rule in application.policy_rules}
    yield from (f"rules.{name}" for name in sorted(rules - words.rules.keys()))
    if application.out_of_scope and not words.out_of_scope:
        yield "out_of_scope"
    labels = {*_columns(engine), *_told(engine, words)}
    labels |= {f"{tool}.{name}" for tool, name, _ in _decided(engine, words)}
    yield from (f"labels.{name}" for name in sorted(labels - words.labels.keys()))
    listed = {word for _, _, words_of in _decided(engine, words) for word in words_of}
    yield from (f"values.{word}" for word in sorted(listed - words.values.keys()))


def _columns(engine: Engine) -> Iterator[str]:
    """Yield the columns that a user may be asked for."""
    application = engine.application
    for table, columns in application.known.items():
        foreign = engine.tables[table].foreign_keys if table in engine.tables else {}
        yield from (f"{table}.{column}" for column in columns if column not in foreign)
    if application.user.table is not None:
        yield from (f"{application.user.table}.{column}" for column in application.identify)


def _told(engine: Engine, words: Wording) -> Iterator[str]:
    """Yield the columns whose values are told: answers of the agent, and what a user reads."""
    for name, tool in engine.application.tools.items():
        for column in engine.results.get(name, ()):
            read = tool.by == "user" and tool.effect == "read"
            if column.origin and (read or column.name in words.questions.get(name, {})):
                yield column.origin


def _decided(engine: Engine, words: Wording) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield tool, parameter and words of the list, if any, of what a user decides."""
    application = engine.application
    for name, tool in application.tools.items():
        asked = tool.intent or words.questions.get(name)
        if not asked or name == application.handoff or tool.by == "user":
            continue
        for leaf in leaves(tool):
            parameter = leaf.parameter
            if parameter.entity or parameter.match in _own(application):
                continue
            enum = tuple(word for word in parameter.enum or () if isinstance(word, str))
            yield name, leaf.path[0], enum


def _own(application: Application) -> set[str]:
    return {f"{application.user.table}.{column}" for column in application.identify}


def _templates(application: Application, words: Wording, where: str) -> Iterator[Finding]:
    texts = [(f"intents.{name}", name, text) for name, text in words.intents.items()]
    for name, questions in words.questions.items():
        texts += [(f"questions.{name}.{key}", name, text) for key, text in questions.items()]
    for path, name, text in texts:
        if name not in application.tools:
            continue
        parameters = application.tools[name].parameters
        try:
            unknown = sorted(Words(text, where=f"{where}.{path}").names - set(parameters))
        except BadApplication as error:
            yield Finding.of(error)
            continue
        for strange in unknown:
            remedy = f"parameters: {', '.join(parameters) or 'none'}"
            yield Finding("error", f"{where}.{path}", f"unknown name {strange!r}", remedy)


def _questions(words: Wording, language: str, where: str) -> Iterator[Finding]:
    for name, questions in words.questions.items():
        for column, text in questions.items():
            if not hearing(language).has("question_clause", _BLOCKS.sub("", text)):
                path = f"{where}.questions.{name}.{column}"
                what = f"does not read as a question: {text[:40]!r}"
                yield Finding("error", path, what, "begin with a word that asks")
