"""Runs commands of toolloom in forks of a process that has imported all of it.

A killed and resumed run is dozens of processes; starting an interpreter for each would take longer
than all that they do. One JSON object a line comes in and one answer a line goes out.
"""

import json
import os
import sys

import aiohttp  # noqa: F401  (imported here once, for all forks)
import duckdb  # noqa: F401
import openai  # noqa: F401

from synth.app import main, module_of
from synth.core.llm.open import OpenModels  # noqa: F401

for command in ("generate", "export"):
    module_of(command)


def start(argv, said, limit):
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if limit is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        code = main(argv)
    except KeyboardInterrupt:  # before the command has begun
        code = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def poll(pid):
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


for line in sys.stdin:
    asked = json.loads(line)
    answer = start(**asked["start"]) if "start" in asked else poll(asked["poll"])
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
