"""Read YAML 1.2 text that somebody else wrote: bounded, without surprises.

PyYAML's own constructors follow YAML 1.1, where `no` is false, `12:30` is 750 and a date becomes an
object. This reader takes PyYAML's event stream only (which is iterative, so deep nesting cannot
exhaust the stack) and builds plain values by the core schema of YAML 1.2. It refuses tags,
duplicate keys, several documents, and texts that grow beyond a bound when aliases are expanded.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

MAX_CHARACTERS = 1_000_000
MAX_NODES = 100_000
MAX_DEPTH = 40

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"-?(\.[0-9]+|(0|[1-9][0-9]*)\.[0-9]*)([eE][-+]?[0-9]{1,3})?")
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class YamlError(ValueError):
    """The text is refused; `path` leads to the place, `line` counts from 1 (0: unknown)."""

    def __init__(self, what: str, *, path: str = "", line: int = 0) -> None:
        super().__init__(what)
        self.what, self.path, self.line = what, path, line


def join(path: tuple[str | int, ...]) -> str:
    """Write a path as people do: `tools.lend_book.steps[2].write`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    value: dict[Any, Any] | list[Any]
    anchor: str | None
    size: int = 1
    key: Any = None
    has_key: bool = False


@dataclass(slots=True)
class _Builder:
    """Turns events into values; `stack` holds the open collections, outermost first."""

    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    root: Any = None
    documents: int = 0

    def path(self) -> str:
        parts: list[str | int] = []
        for item in self.stack:
            if isinstance(item.value, list):
                parts.append(len(item.value))
            elif item.has_key:
                parts.append(str(item.key))
        return join(tuple(parts))

    def fail(self, what: str, event: yaml.Event) -> YamlError:
        return YamlError(what, path=self.path(), line=_line(event))

    def open(self, event: yaml.CollectionStartEvent, value: dict[Any, Any] | list[Any]) -> None:
        self._refuse_tag(event)
        if self.stack and isinstance(self.stack[-1].value, dict) and not self.stack[-1].has_key:
            raise self.fail("a key must be a plain word, not a collection", event)
        if len(self.stack) >= MAX_DEPTH:
            raise self.fail(f"nested deeper than {MAX_DEPTH} levels", event)
        if event.anchor:
            self.anchors.pop(event.anchor, None)
        self.stack.append(_Open(value, event.anchor))

    def close(self, event: yaml.Event) -> None:
        done = self.stack.pop()
        if done.anchor:
            self.anchors[done.anchor] = (done.value, done.size)
        self.add(done.value, done.size, event)

    def scalar(self, event: yaml.ScalarEvent) -> None:
        self._refuse_tag(event)
        value = _plain(event.value) if event.implicit[0] else event.value
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        self.add(value, 1, event)

    def alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise self.fail(f"alias *{event.anchor} refers to nothing before it", event)
        value, size = self.anchors[event.anchor]
        self.add(value, size, event)

    def add(self, value: Any, size: int, event: yaml.Event) -> None:
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        top.size += size
        if top.size > MAX_NODES:
            raise self.fail(f"more than {MAX_NODES} values (aliases expanded)", event)
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.has_key:
            top.value[top.key], top.has_key = value, False
        else:
            self._key(top, value, event)

    def _key(self, top: _Open, key: Any, event: yaml.Event) -> None:
        if isinstance(key, (dict, list)):
            raise self.fail("a key must be a plain word, not a collection", event)
        # The core schema reads the key of `null: 0.1` as nothing; nobody means that.
        key = "null" if key is None else key
        if key in top.value:
            raise self.fail(f"duplicate key {key!r}", event)
        top.key, top.has_key = key, True

    def _refuse_tag(self, event: yaml.NodeEvent) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise self.fail(f"tag {tag!r} is not allowed", event)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _plain(text: str) -> Any:
    """Resolve an unquoted scalar by the core schema of YAML 1.2, more strictly for numbers.

    What would not come back as written stays text: +49, leading zeros, 1e5, twenty digits.
    """
    if text in _NULLS:
        return None
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


def read_yaml(text: str) -> Any:
    """Return the one document in `text` as dicts, lists, strings, numbers, booleans and None.

    Raises:
        YamlError: syntax, tags, duplicate keys, several documents, or beyond the bounds.
    """
    if len(text) > MAX_CHARACTERS:
        raise YamlError(f"longer than {MAX_CHARACTERS} characters")
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            _take(builder, event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error).split("\n")[0]
        line = mark.line + 1 if mark else 0
        raise YamlError(f"not YAML: {what}", path=builder.path(), line=line) from error
    if not builder.documents:
        raise YamlError("the file is empty")
    return builder.root


def _take(builder: _Builder, event: yaml.Event) -> None:
    if isinstance(event, yaml.ScalarEvent):
        builder.scalar(event)
    elif isinstance(event, yaml.MappingStartEvent):
        builder.open(event, {})
    elif isinstance(event, yaml.SequenceStartEvent):
        builder.open(event, [])
    elif isinstance(event, yaml.CollectionEndEvent):
        builder.close(event)
    elif isinstance(event, yaml.AliasEvent):
        builder.alias(event)
    elif isinstance(event, yaml.DocumentStartEvent):
        builder.documents += 1
        if builder.documents > 1:
            raise builder.fail("more than one document", event)
