"""A model is asked for an application or a change of one, and to mend what cannot be used.

The operators are those of Evol-Instruct (WizardLM, section 3.1): five in depth, and in breadth at
each level of the K2 report's hierarchy (section 3.1.1: category, application, tool). What a model
writes is held to the same rules as what our own operators make, and to two more: it says nothing in
the words of its prompt or of strangers, and nothing that is meant for a model.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson
from pydantic import ValidationError

from synth.core.application import Application
from synth.core.prompts import prompts, quoted
from synth.core.protocols import LLM, ChatRequest, Finish, Reply, Sampler
from tool_registry.elimination import RULES, Elimination, Proof
from tool_registry.invention.build import application_of, changed, shown_tool
from tool_registry.invention.form import Change, Form, Sketch, response_format
from tool_registry.invention.tables import Misfit, problems
from tool_registry.operator import Kind
from tool_registry.scrub import suspicions, visible

PROMPTS = "tool_registry.invention.prompts"
REPAIRS = 2
"""Times that a model is asked to mend a reply."""
RUN = 7
"""Words in a row that are nobody's by chance."""
_SAID = 20_000
"""Characters of a reply that a model is shown again."""
_WHY = 1_500
_FENCE = re.compile(r"```(?:json)?\s*(\{.*\})\s*```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Way:
    """An operator that a model plays; its prompt has the same name."""

    kind: Kind
    form: Form


WAYS: Mapping[str, Way] = {
    "new_category": Way("breadth", Sketch),
    "new_application": Way("breadth", Sketch),
    "new_tool": Way("breadth", Change),
    "constrain": Way("constrain", Change),
    "deepen": Way("deepen", Change),
    "concretise": Way("concretise", Change),
    "steps": Way("steps", Change),
    "input": Way("input", Change),
}


@dataclass(frozen=True, slots=True)
class Foreign:
    """A crawled tool, as far as a model is shown it."""

    tool: str
    """Its identity in the registry."""
    name: str
    description: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a model is asked for."""

    number: int
    way: str
    """Of `WAYS`."""
    category: str
    effect: str | None = None
    """Which kind of tools is lacking."""
    parent: Application | None = None
    shown: tuple[str, ...] = ()
    """Tools of the parent that it is shown in full."""
    foreign: tuple[Foreign, ...] = ()
    others: tuple[str, ...] = ()
    """Summaries of applications that exist."""
    categories: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    """Things that it may have to do with."""


@dataclass(frozen=True, slots=True)
class Invented:
    """What came of asking."""

    prompt: str
    """Hash of the prompts."""
    application: Application | None = None
    proof: Proof = field(default_factory=Proof)
    words: str = ""
    tools: tuple[str, ...] = ()
    refused: tuple[Elimination, ...] = ()
    """Why earlier replies could not be used."""
    why: Elimination | None = None
    """Why the last one could not; None if it is kept."""


Examine: TypeAlias = Callable[[Application], Awaitable[tuple[Elimination | None, Proof]]]


async def invent(llm: LLM, sampler: Sampler, wish: Wish, examine: Examine) -> Invented:
    """Ask for an application until a reply can be used, or was mended in vain.

    Args:
        llm: the model.
        sampler: how its tokens are drawn.
        wish: what it is asked for.
        examine: holds an application to the rules that need it to be executed.

    Raises:
        ModelFailed: no reply came.
        BudgetSpent: it may not be asked.
    """
    rules, task = prompts(PROMPTS).render("rules"), _task(wish)
    page = _page(wish, rules, task)
    talk, refused = list(page), list[Elimination]()
    form = response_format(WAYS[wish.way].form)
    while True:
        reply = await llm.complete(ChatRequest(talk, sampler=sampler, response_format=form))
        made, why = _read(reply, wish)
        proof = Proof()
        if made is not None:
            why = _said_before(made.application, wish, f"{rules} {task}")
            if why is None:
                why, proof = await examine(made.application)
        done = why is None or why.rule == "withheld" or len(refused) == REPAIRS
        if done or why is None:
            found = made or _Made(None, "", ())
            key = prompt_key(wish.way)
            return Invented(key, found.application, proof, found.words, found.tools,
                            tuple(refused), why)  # fmt: skip
        refused.append(why)
        said = (reply.message.content or "")[:_SAID] or "{}"
        detail = f"{RULES[why.rule]}: {_findings(why, proof)}"[:_WHY]
        repair = prompts(PROMPTS).render("repair", why=quoted(detail))
        talk = [*page, {"role": "assistant", "content": said}, {"role": "user", "content": repair}]


def prompt_key(way: str) -> str:
    """Return what changes when a prompt of an operator does."""
    load = prompts(PROMPTS)
    return "-".join(load.hash(name)[:6] for name in ("rules", "page", "repair", way))


def _task(wish: Wish) -> str:
    known = ", ".join(wish.categories) or "none yet"
    return prompts(PROMPTS).render(wish.way, category=wish.category, categories=known)


def _page(wish: Wish, rules: str, task: str) -> list[dict[str, Any]]:
    foreign = [
        {
            "name": one.name[:64],
            "description": one.description[:400],
            "parameters": [name[:64] for name in one.parameters[:24]],
        }
        for one in wish.foreign
    ]
    text = prompts(PROMPTS).render(
        "page",
        task=task,
        effect=wish.effect,
        hints=", ".join(wish.hints),
        changes=WAYS[wish.way].form is Change,
        others=quoted(wish.others) if wish.others else "",
        foreign=quoted(foreign) if foreign else "",
        parent=quoted(_parent(wish.parent)) if wish.parent else "",
        shown=quoted([shown_tool(n, wish.parent) for n in wish.shown]) if wish.parent else "",
    )
    return [{"role": "system", "content": rules}, {"role": "user", "content": text}]


def _parent(parent: Application) -> dict[str, Any]:
    """Return what a model is shown of an application."""
    return {
        "summary": parent.summary,
        "tables": [line for line in parent.table_sql.splitlines() if line.strip()],
        "users": parent.user.table,
        "known": parent.known,
        "rules": [rule.text for rule in parent.policy_rules],
        "tools": {
            name: [tool.description, list(tool.parameters)] for name, tool in parent.tools.items()
        },
    }


# --- what came -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Made:
    application: Any
    words: str
    tools: tuple[str, ...]


def _read(reply: Reply, wish: Wish) -> tuple[_Made | None, Elimination | None]:
    """Return what a reply makes, or why it makes nothing."""
    if reply.finish in (Finish.CONTENT_FILTER, Finish.REFUSAL):
        return None, Elimination("withheld", f"the reply ended with {reply.finish}")
    if reply.finish == Finish.LENGTH:
        return None, Elimination("form", "it was cut off at the limit of tokens: write less")
    text = reply.message.content or ""
    fenced = _FENCE.search(text)
    data = fenced[1] if fenced else text[text.find("{") : text.rfind("}") + 1]
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return None, Elimination("form", f"it is no JSON object ({error}): {text[:80]!r}")
    try:
        return _made(value, wish), None
    except ValidationError as error:
        return None, Elimination("form", problems(error))
    except Misfit as error:
        return None, Elimination("misfit", str(error))


def _made(value: Any, wish: Wish) -> _Made:
    if wish.parent is None:
        sketch = _placed(Sketch.model_validate(value), wish)
        return _Made(application_of(sketch, wish.number), sketch.summary, ())
    change = Change.model_validate(value)
    child = changed(wish.parent, change, wish.shown, wish.number)
    return _Made(child, change.words, tuple(tool.name for tool in change.tools))


def _placed(sketch: Sketch, wish: Wish) -> Sketch:
    """Return a sketch in its category: the one that was asked for, or one that is new."""
    if wish.way != "new_category":
        return sketch.model_copy(update={"category": wish.category})
    if sketch.category.casefold() in {name.casefold() for name in wish.categories}:
        raise Misfit(f"category: {sketch.category!r} is there already")
    return sketch


def _said_before(made: Application, wish: Wish, prompt: str) -> Elimination | None:
    """Return what is said in the words of the prompt, or as nobody talks to people."""
    known = set(_texts(wish.parent)) if wish.parent else set()
    new = [text for text in _texts(made) if text not in known]
    foreign = {f"the tool {one.tool}": _runs(one.description) for one in wish.foreign}
    sources = {"the prompt": _runs(prompt), **foreign}
    for text in new:
        flags: set[str] = set()
        visible(text, flags)
        if flags or suspicions(text):
            return Elimination("suspicious", repr(text[:200]))
        for source, runs in sources.items():
            if copied := runs & _runs(text):
                return Elimination("copied_words", f"{sorted(copied)[0]!r} is from {source}")
    return None


def _texts(application: Application) -> Iterable[str]:
    """Yield everything in an application that people or models read."""
    yield application.category
    yield from (application.summary, *application.policy.split("\n"), *application.never)
    for name, tool in application.tools.items():
        if name == application.handoff:
            continue
        yield from (name, tool.description, *tool.intent.values())
        yield from (step.message for step in tool.steps if step.message)
        yield from (text for words in tool.questions.values() for text in words.values())
        for parameter in tool.parameters.values():
            yield parameter.description
            yield from (word for word in parameter.enum or () if isinstance(word, str))
    for table in application.seed.values():
        for made in table.columns.values():
            listed = made.argument if isinstance(made.argument, list | tuple) else ()
            yield from (word for word in listed if isinstance(word, str))
    yield from (rule.text for rule in application.policy_rules)
    yield from application.out_of_scope


def _runs(text: str) -> set[str]:
    words = re.findall(r"\w+", text.casefold())
    return {" ".join(words[n : n + RUN]) for n in range(len(words) - RUN + 1)}


def _findings(why: Elimination, proof: Proof) -> str:
    return "; ".join(proof.findings[:6]) if why.rule == "unsound" else why.detail
