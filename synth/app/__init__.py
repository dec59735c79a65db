"""The command `toolloom`: a table of commands, each imported only when it runs.

A command module has `configure(parser)` and `run(arguments) -> dict | None`. What `run` returns is
printed as one JSON object with `--json`; without it, the module has shown it in its own way.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synth.app._show import json_text, line, show
from synth.core.errors import BadPlace, ToolloomError, UnknownName, storage_error

COMMANDS = {
    "demo": "registry, agents, tasks, episodes, judge, dataset, SFT, RL: all of it, in minutes",
    "crawl": "read the tools of MCP servers into the registry",
    "evolve": "make applications with thousands of tools, with a model or without one",
    "twins": "make applications behind the exact tools of crawled servers",
    "agents": "count the agents of a configuration, and whose tools they hold",
    "registry": "search, show and count what is in the registry",
    "generate": "make accepted trajectories",
    "report": "say what came of a run",
    "fork": "let episodes of a run go on in another way: other players, faults, chance",
    "replay": "make every trajectory of a run again: the same must come of it",
    "export": "write the dataset of a run",
    "contamination": "look for what public benchmarks ask in a dataset",
    "lint": "prove an application sound",
    "judge": "judge a run again, or conversations from elsewhere; calibrate a model as judge",
    "gate": "list the tasks of a file that an idle agent can pass",
    "play": "play the agent yourself, against the scripted user",
    "serve": "serve an application as an MCP server, for any agent client",
    "models": "fetch a small model",
    "train": "sft, rl: train a model on a dataset or in the environments",
    "eval": "play a model in the environments and judge it",
    "mock-llm": "serve a free model endpoint that misbehaves as asked: for dry runs and tests",
    "doctor": "versions, sandbox, locks",
}
"""Command -> what it does. The module is `synth.app.COMMAND`, with `_` for `-`."""
_PATH = (str, bytes)
_EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "tokenizers", "safetensors", "gguf"), "train"),
    "numpy": "train",
    "ray": "ray",
}
"""Package that a command may miss -> the extra that brings it."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toolloom",
        usage="toolloom [--workspace DIR] [--json] COMMAND ...",
        description="Weave tool specifications into training data for LLM agents, and train on it.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n"
        + "\n".join(f"  {name:<9} {text}" for name, text in COMMANDS.items())
        + "\n\n`toolloom COMMAND --help` says more. "
        "Exit codes: 0 done, 1 failed, 2 bad input, 3 target missed, 130 interrupted.",
    )
    _add_shared(parser, top=True)
    parser.add_argument("--version", action=_Version, nargs=0, help="say which version this is")
    return parser


class _Version(argparse.Action):
    """Says the version and exits; what it takes to know it is imported only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        show(f"toolloom {version('toolloom')}")
        parser.exit()


def _add_shared(parser: argparse.ArgumentParser, *, top: bool) -> None:
    parser.add_argument(
        "--workspace",
        type=Path,
        default=Path("workspace") if top else argparse.SUPPRESS,
        metavar="DIR",
        help="folder of registry, runs and checkpoints (default: ./workspace)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        default=False if top else argparse.SUPPRESS,
        help="print one JSON object on stdout; progress goes to stderr",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what an encoding cannot write is no crash
            stream.reconfigure(errors="backslashreplace")
    before, command, after = _split(list(sys.argv[1:] if argv is None else argv))
    parser = _parser()
    top = parser.parse_args(before)
    if command is None:
        parser.print_help()
        return 0
    try:
        _run(command, after, top)
    except ToolloomError as error:
        return _fail(f"toolloom {command}: {error}", error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted; the same command goes on from here", 130)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        remedy = f"pip install 'toolloom[{_EXTRAS[error.name]}]'"
        return _fail(f"toolloom {command}: {error.name} is not installed ({remedy})", 1)
    except BrokenPipeError:
        # The reader went away (`| head`): not an error, but nothing may be flushed at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a folder that cannot be written, a full disk
        place = error.filename2 or error.filename
        found = storage_error(error, os.fsdecode(place) if isinstance(place, _PATH) else "")
        return _fail(f"toolloom {command}: {found}", found.exit_code)
    return 0


def module_of(command: str) -> Any:
    """Return the module of a command."""
    return importlib.import_module(f"synth.app.{command.replace('-', '_')}")


def _run(command: str, after: Sequence[str], top: argparse.Namespace) -> None:
    """Parse what belongs to the command, run it, and print its result if JSON is wanted."""
    if command not in COMMANDS:
        raise UnknownName("command", command, COMMANDS)
    module = module_of(command)
    own = argparse.ArgumentParser(
        prog=f"toolloom {command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_shared(own, top=False)
    module.configure(own)
    arguments = own.parse_intermixed_args(after, namespace=top)
    _check_workspace(arguments.workspace)
    result = module.run(arguments)
    if arguments.json and result is not None:
        sys.stdout.write(_json(result) + "\n")
    sys.stdout.flush()


def _check_workspace(folder: Path) -> None:
    """Refuse a workspace that is no folder before any work is done for it."""
    for part in (*reversed(folder.parents), folder):
        try:
            found = os.stat(part)
        except FileNotFoundError:
            return  # it is made when something is first written
        except OSError as error:
            raise storage_error(error, part) from error
        if not stat.S_ISDIR(found.st_mode):
            remedy = "name a folder with --workspace"
            raise BadPlace("the workspace is not a folder", where=str(part), remedy=remedy)


def _json(result: Any) -> str:
    try:
        text = json.dumps(result, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:  # NaN is no JSON; a figure that is none is null
        plain = json.loads(json.dumps(result, default=str), parse_constant=lambda name: None)
        text = json.dumps(plain, ensure_ascii=False)
    return json_text(text)


def _split(argv: list[str]) -> tuple[list[str], str | None, list[str]]:
    """Split the line at the command, so that each command parses only what is its own."""
    index = 0
    while index < len(argv):
        if not argv[index].startswith("-"):
            return argv[:index], argv[index], argv[index + 1 :]
        index += 2 if argv[index] == "--workspace" else 1
    return argv, None, []


def _fail(text: str, code: int) -> int:
    # Names and messages of others may hold line breaks; a user gets one line all the same.
    sys.stderr.write(line(text) + "\n")
    return code
