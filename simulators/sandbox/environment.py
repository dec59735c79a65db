"""Bash, Python and files behind the `Environment` protocol, for coding agents.

The state is a folder as a value (`simulators.sandbox.state`). Files are read and written on the
value; only a command has it laid out, in a room of its own (`simulators.sandbox.run`), and what the
command left is the next value. So reset, diff, snapshot, restore and fork touch no disk, and an
episode that nobody closes leaves nothing behind.

A command that fails in its own terms is a call that succeeded: the agent reads the exit code. One
that was ended (time, memory, output) or whose folder cannot be kept is a failed call, and a failed
call leaves everything as it was.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import jsonschema_rs

from simulators.live.folder import MAX_FILE, Tree
from simulators.sandbox import files
from simulators.sandbox.project import Projects, shipped
from simulators.sandbox.run import PLACE, Bounds, Ran, bash, python, run
from simulators.sandbox.state import State
from synth.core import schemas
from synth.core.canonical import canonical
from synth.core.errors import ServerFailed, ToolloomError
from synth.core.types import CallError, Diff, Effect, Provenance, ToolResult, ToolSpec

POLICY = f"""\
You work on the project in {PLACE}. Commands run there, without network, as long as a call lasts:
nothing that they start goes on after it, and only the project folder is kept. Files of other
places, such as /tmp, are gone with the next call. `python` is the standard library alone.
"""
_SECONDS = 20
_MAX_CODE = 30_000
_MAX_MESSAGE = 300
_ENDED = {
    "time": "It did not end within {seconds} seconds. Nothing of it is kept.",
    "memory": "It took more than {memory} MiB of memory. Nothing of it is kept.",
    "output": "It wrote more than {output} KiB of output. Nothing of it is kept.",
}


def _tool(
    name: str, description: str, effect: Effect, needed: Mapping[str, Any], **more: Any
) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description,
        parameters={
            "type": "object",
            "properties": {**needed, **more},
            "required": list(needed),
            "additionalProperties": False,
        },
        category="software development",
        application="sandbox",
        effect=effect,
        effect_source="declared",
        provenance=Provenance(source="environment:sandbox"),
    )


def _string(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _whole(description: str, low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "description": description}


@functools.cache
def _specs(most: int) -> tuple[ToolSpec, ...]:
    """Return the tools, a command of which may take `most` seconds."""
    timeout = _whole(f"Seconds that it may take; default {min(_SECONDS, most)}", 1, most)
    path = _string("Path, relative to the project folder or absolute", minLength=1, maxLength=1_000)
    code = {"minLength": 1, "maxLength": _MAX_CODE}
    return (
        _tool(
            "run_bash",
            "Run a command in bash, in the project folder. Returns its output and exit code. "
            "Variables, folder and background processes do not last beyond the call.",
            Effect.DESTRUCTIVE,
            {"command": _string("The command; it may have several lines", **code)},
            timeout=timeout,
        ),
        _tool(
            "run_python",
            "Run Python code in a new interpreter, in the project folder. Returns what it prints "
            "and its exit code.",
            Effect.DESTRUCTIVE,
            {"code": _string("The code", **code)},
            timeout=timeout,
        ),
        _tool(
            "read_file",
            "Read a text file, or some of its lines.",
            Effect.READ,
            {"path": path},
            first_line=_whole("Number of the first line, from 1; default 1", 1, 10**7),
            lines=_whole(f"Number of lines; default {files.MAX_LINES}", 1, files.MAX_LINES),
        ),
        _tool(
            "write_file",
            "Write a whole file. Its folders are made if they do not exist.",
            Effect.WRITE,
            {"path": path, "content": _string("All of it", maxLength=MAX_FILE - 1)},
        ),
        _tool(
            "edit_file",
            "Replace a text that occurs exactly once in a file by another one.",
            Effect.WRITE,
            {
                "path": path,
                "old_text": _string("The text as it is, with all spaces", minLength=1),
                "new_text": _string("The text as it shall be"),
            },
        ),
        _tool(
            "list_files",
            "List what lies below a folder, at any depth.",
            Effect.READ,
            {},
            path=path,
        ),
    )


@functools.cache
def _validators(most: int) -> dict[str, jsonschema_rs.Validator]:
    return {spec.name: schemas.validator(spec.parameters) for spec in _specs(most)}


class SandboxEnvironment:
    """One episode of a coding agent.

    Args:
        projects: seed -> the project whose folder an episode starts from.
        bounds: what one call may take up.
    """

    real = True

    def __init__(self, projects: Projects = shipped, *, bounds: Bounds | None = None) -> None:
        self._projects, self._bounds = projects, bounds or Bounds()
        self._most = int(self._bounds.seconds)
        self._tools: dict[str, Callable[..., Awaitable[str]]] = {
            "run_bash": self._run_bash,
            "run_python": self._run_python,
            "read_file": self._read_file,
            "write_file": self._write_file,
            "edit_file": self._edit_file,
            "list_files": self._list_files,
        }
        self._base = Tree({})
        self._state: State | None = None

    async def reset(self, seed: int) -> None:
        """Start over from the folder of the project that `seed` names."""
        self._base = Tree.of(self._projects(seed).files)
        self._state = State(self._base)

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return _specs(self._most)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call. All of it happens or none of it.

        Raises:
            NoConfinement: this machine cannot confine a command.
        """
        self._now()
        if name not in self._tools:
            return _failure("unknown_tool", f"There is no tool named {name!r}.")
        problem = self._problem(name, arguments)
        if problem is not None:
            return _failure("invalid_arguments", problem)
        try:
            # To the schema, 2.0 is an integer, and no other number comes here.
            exact = {k: int(v) if isinstance(v, float) else v for k, v in arguments.items()}
            return ToolResult(ok=True, content=await self._tools[name](**exact))
        except files.Refused as refused:
            return _failure(refused.code, refused.message)

    def _problem(self, name: str, arguments: Any) -> str | None:
        if not isinstance(arguments, Mapping):
            return "The arguments are not a JSON object."
        try:
            text = canonical(dict(arguments))
        except ValueError as error:
            return f"The arguments are {error}."
        except RecursionError:
            return "The arguments are nested too deeply."
        if "\\u0000" in text and any("\0" in str(value) for value in arguments.values()):
            return "There are NUL characters in the arguments."
        for found in _validators(self._most)[name].iter_errors(dict(arguments)):
            where = ".".join(str(part) for part in found.instance_path)
            said = found.message[:_MAX_MESSAGE]
            return f"{where}: {said}" if where else said
        return None

    # --- tools -------------------------------------------------------------------------------

    async def _run_bash(self, command: str, timeout: int | None = None) -> str:
        return await self._run([bash(), "-c", command], timeout)

    async def _run_python(self, code: str, timeout: int | None = None) -> str:
        return await self._run([python(), "-c", code], timeout)

    async def _run(self, argv: list[str], timeout: int | None) -> str:
        seconds = timeout or min(_SECONDS, self._most)
        try:
            ran = await run(argv, self._now(), seconds=seconds, bounds=self._bounds)
        except ServerFailed as error:
            raise files.Refused("not_kept", f"It {error.what}. Nothing of it is kept.") from error
        if ran.ended:
            raise files.Refused(ran.ended, self._why(ran, seconds))
        self._state = ran.state
        end = "" if not ran.output or ran.output.endswith("\n") else "\n"
        return f"{ran.output}{end}[exit code {ran.status}]"

    def _why(self, ran: Ran, seconds: int) -> str:
        # Not what it had written by then, which is chance.
        memory, output = self._bounds.memory >> 20, self._bounds.output >> 10
        return _ENDED[ran.ended].format(seconds=seconds, memory=memory, output=output)

    async def _read_file(self, path: str, first_line: int = 1, lines: int = files.MAX_LINES) -> str:
        return files.read(self._now().tree, path, first_line, lines)

    async def _write_file(self, path: str, content: str) -> str:
        tree, inside = files.write(self._now().tree, path, content.encode())
        return self._wrote(tree, inside)

    async def _edit_file(self, path: str, old_text: str, new_text: str) -> str:
        tree, inside = files.edit(self._now().tree, path, old_text, new_text)
        return self._wrote(tree, inside)

    async def _list_files(self, path: str = ".") -> str:
        return files.listed(self._now().tree, path)

    def _wrote(self, tree: Tree, inside: str) -> str:
        self._state = self._now().then(tree)
        content = tree.entries[inside]
        assert isinstance(content, bytes)
        return f"{PLACE}/{inside}: {len(content)} bytes"

    # --- state -------------------------------------------------------------------------------

    def _now(self) -> State:
        if self._state is None:
            raise ToolloomError("reset comes first", where="sandbox")
        return self._state

    async def diff(self) -> Diff:
        """Return what differs from the folder of `reset`: content, permissions, links."""
        return self._now().tree.diff(self._base)

    async def snapshot(self) -> bytes:
        """Return the folder, and when its entries were changed."""
        return self._now().pack()

    async def restore(self, state: bytes) -> None:
        """Go back to a snapshot; `diff` still counts from `reset`.

        Raises:
            BadRow: it is none.
        """
        self._now()
        self._state = State.unpack(state)

    async def fork(self) -> SandboxEnvironment:
        """Return an independent copy of the current state; its `diff` counts from `reset` too."""
        twin = SandboxEnvironment(self._projects, bounds=self._bounds)
        twin._base, twin._state = self._base, self._now()
        return twin

    async def close(self) -> None:
        """Let the folder go. Harmless when called twice."""
        self._state = None


def _failure(code: str, message: str) -> ToolResult:
    content = canonical({"error": code, "message": message})
    return ToolResult(ok=False, content=content, error=CallError(code=code, message=message))
