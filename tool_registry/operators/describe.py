"""Describes tools in another manner: in brief, at length with what is refused, with the result."""

from __future__ import annotations

import random
import re

from synth.core.application import Tool
from tool_registry.composer.phrases import listed
from tool_registry.edits import remade, told
from tool_registry.operator import Edit, Operator, Subject

_NATURE = {
    "read": "Changes nothing.",
    "write": "Changes what is stored.",
    "destructive": "Cannot be undone.",
}

_DONE = re.compile(r"(Lists|Returns) (those|one)\b")


def _brief(tool: Tool) -> str:
    """Return the first sentence, unless it says what there is and only the next what is done."""
    first, *others = re.split(r"(?<=[.;])\s", tool.description.strip())
    whole = re.match(r"(An?|The)\b", first) or any(_DONE.match(text) for text in others)
    return tool.description if whole else first.rstrip(".;") + "."


def _long(tool: Tool) -> str:
    needs = [n.replace("_", " ") for n, p in tool.parameters.items() if not p.optional]
    also = [n.replace("_", " ") for n, p in tool.parameters.items() if p.optional]
    errors = list(dict.fromkeys(f"`{s.error}`" for s in tool.steps if s.error))
    sentences = [
        f"Needs {listed(needs)}." if needs else "",
        f"Optional: {listed(also)}." if also else "",
        f"Errors: {listed(errors)}." if errors else "",
        _NATURE[tool.effect],
    ]
    new = [sentence for sentence in sentences if sentence and sentence not in tool.description]
    return told(tool, " ".join(new)).description if new else tool.description


def _result(tool: Tool) -> str:
    shape = next((s.shape for s in tool.steps if s.returns), None)
    gives = {"list": "Returns a list.", "object": "Returns one object.", None: "Returns nothing."}
    new = [text for text in (gives[shape], _NATURE[tool.effect]) if text not in tool.description]
    return told(tool, " ".join(new)).description if new else tool.description


_MANNERS = {"in brief": _brief, "at length": _long, "with what they return": _result}


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    application = subject.application
    manner = rng.choice(list(_MANNERS))
    tools = {
        name: remade(tool, description=_MANNERS[manner](tool)) if tool.by == "agent" else tool
        for name, tool in application.tools.items()
    }
    changed = tuple(
        n for n, t in tools.items() if t.description != application.tools[n].description
    )
    if not changed:
        return None
    child = remade(application, tools=tools)
    return Edit(child, f"tools are described {manner}", changed)


OPERATOR = Operator("breadth", "Descriptions in another manner.", _apply)
