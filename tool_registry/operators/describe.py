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


def _brief(tool: Tool) -> str:
    """Return the first sentence, unless it begins with an article: then it tells what there is."""
    first = re.split(r"(?<=[.;])\s", tool.description.strip())[0].rstrip(".;") + "."
    return tool.description if re.match(r"(An?|The)\b", first) else first


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
    return told(tool, " ".join(filter(None, sentences))).description


def _result(tool: Tool) -> str:
    shape = next((s.shape for s in tool.steps if s.returns), None)
    gives = {"list": "Returns a list.", "object": "Returns one object.", None: "Returns nothing."}
    return told(tool, f"{gives[shape]} {_NATURE[tool.effect]}").description


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
