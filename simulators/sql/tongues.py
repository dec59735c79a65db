"""The part of the lint that reads what an application says in other languages than English."""

from __future__ import annotations

from collections.abc import Iterator

from simulators.sql.engine import Engine
from simulators.sql.finding import Finding
from simulators.sql.words import Words
from synth.core.application import Application, Wording
from synth.core.errors import BadApplication
from synth.core.hearing import languages


def lint_languages(engine: Engine) -> Iterator[Finding]:
    """Yield what is wrong with the words of other languages: all that they name has to exist."""
    application = engine.application
    for language, words in application.languages.items():
        where = f"{application.application}: languages.{language}"
        if language not in languages():
            remedy = f"known: {', '.join(languages())}"
            yield Finding("error", where, "nobody here speaks it", remedy)
        for name in _strange(engine, words):
            yield Finding("error", where, f"nothing is called {name!r}", "correct it, or remove it")
        yield from _templates(application, words, where)


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
