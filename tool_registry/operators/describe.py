"""Describes tools in another manner: curt, or at length with what is refused."""

from __future__ import annotations

import random
import re

from synth.core.application import Tool
from tool_registry.edits import remade
from tool_registry.operator import Edit, Operator, Subject


def _curt(tool: Tool) -> str:
    first = re.split(r"(?<=[.;])\s|, ", tool.description.strip())[0]
    return first.rstrip(".;,")


def _long(tool: Tool) -> str:
    text = tool.description.strip().rstrip(".") + "."
    needs = [n.replace("_", " ") for n, p in tool.parameters.items() if not p.optional]
    also = [n.replace("_", " ") for n, p in tool.parameters.items() if p.optional]
    if needs:
        text += f" Needs: {', '.join(needs)}."
    if also:
        text += f" Optional: {', '.join(also)}."
    errors = list(dict.fromkeys(s.error for s in tool.steps if s.error))
    if errors:
        text += f" Refused with {', '.join(f'`{e}`' for e in errors)}."
    nature = {
        "read": "Changes nothing.",
        "write": "Changes the records.",
        "destructive": "Cannot be undone.",
    }
    return f"{text} {nature[tool.effect]}"


def _stepwise(tool: Tool) -> str:
    checks = sum(1 for s in tool.steps if s.require)
    shape = next((s.shape for s in tool.steps if s.returns), None)
    gives = {"list": "returns a list", "object": "returns one object", None: "returns nothing"}[
        shape
    ]
    return f"[{tool.effect}] {tool.description.strip().rstrip('.')} ({checks} checks; {gives})"


_MANNERS = {"curt": _curt, "at length": _long, "with nature and shape": _stepwise}


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
