"""Prompts are files: Jinja2 with StrictUndefined, shipped as package data, hashed for provenance.

A prompt `NAME` is the file `NAME.j2` in a package's `prompts/` folder. The functions here read the
folder of `synth`; another package makes its own loader: `Prompts("train.prompts")`. Prompt files
are written by us and trusted; a template that came from a model never goes through this module.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
import orjson
from jinja2 import meta

from synth.core.errors import BadInput, UnknownName

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Prompts:
    """The prompt files of one package folder.

    Args:
        package: import name of the folder, for instance `synth.prompts`.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self._folder = files(package)
        self._environment = jinja2.Environment(
            loader=jinja2.FunctionLoader(self._load),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=False,
            autoescape=False,  # the output is a prompt, not a web page
            auto_reload=False,
        )

    def _load(self, name: str) -> str | None:
        if not _NAME.fullmatch(name):
            return None
        file = self._folder / f"{name}.j2"
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def names(self) -> tuple[str, ...]:
        """Return the names of all prompts, sorted."""
        return tuple(sorted(f.name[:-3] for f in self._folder.iterdir() if f.name.endswith(".j2")))

    def source(self, name: str) -> str:
        """Return the text of a prompt file.

        Raises:
            UnknownName: no such prompt; close names are suggested.
        """
        text = self._load(name)
        if text is None:
            raise UnknownName("prompt", name, self.names())
        return text

    def template(self, name: str) -> jinja2.Template:
        """Return the compiled prompt (compiled once, then cached by Jinja2).

        Raises:
            UnknownName: no such prompt.
        """
        try:
            return self._environment.get_template(name)
        except jinja2.TemplateNotFound:
            raise UnknownName("prompt", name, self.names()) from None

    def render(self, name: str, /, **values: Any) -> str:
        """Return the prompt filled in, without white space at its ends.

        Raises:
            UnknownName: no such prompt.
            BadInput: the prompt uses a value that was not given.
        """
        try:
            return self.template(name).render(values).strip()
        except jinja2.TemplateNotFound as error:
            raise UnknownName("prompt", str(error.name), self.names()) from error
        except jinja2.UndefinedError as error:
            raise BadInput(
                str(error.message),
                where=f"prompt {self.package}/{name}.j2",
                remedy=f"given: {', '.join(sorted(values)) or 'nothing'}",
            ) from error

    def hash(self, name: str) -> str:
        """Return 12 hexadecimal characters that change when the prompt, or one it includes, does.

        Raises:
            UnknownName: no such prompt.
        """
        seen: dict[str, str] = {}
        waiting = [name]
        while waiting:
            part = waiting.pop()
            if part in seen:
                continue
            seen[part] = self.source(part)
            found = meta.find_referenced_templates(self._environment.parse(seen[part]))
            waiting.extend(reference for reference in found if reference is not None)
        text = "\x1f".join(f"{part}\x1e{seen[part]}" for part in sorted(seen))
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def quoted(value: Any) -> str:
    """Return data of strangers as JSON that cannot end the block of a prompt it stands in."""
    return orjson.dumps(value, default=str).decode().replace("<", "\\u003c")


_loader = cache(Prompts)


def prompts(package: str = "synth.prompts") -> Prompts:
    """Return the loader of a package's folder; one a process, so that templates compile once."""
    return _loader(package)


def render(name: str, /, **values: Any) -> str:
    """Fill in one of the prompts of `synth`; see `Prompts.render`."""
    return prompts().render(name, **values)


def prompt_hash(name: str) -> str:
    """Return the hash of one of the prompts of `synth`; see `Prompts.hash`."""
    return prompts().hash(name)
