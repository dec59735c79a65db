"""One row of `bench_models.py`: the same episodes through `verifiers`, run by another Python.

    PYTHON_WITH_VERIFIERS bench/peer_verifiers.py URL EPISODES CONCURRENCY

Ten tools that answer with a constant; whatever the endpoint calls is called. Prints one JSON line:
seconds of CPU without imports, and the turns of the model in all.
"""

import asyncio
import json
import os
import sys
import time
from typing import Any


def _tools() -> list[Any]:
    def make(number: int) -> Any:
        def tool(email: str, limit: int = 1) -> str:
            """Find the loans of a member, the latest first, by their e-mail address.

            Args:
                email: E-mail address of the member
                limit: At most so many
            """
            return "due 2026-03-23"

        tool.__name__ = f"tool_{number}"
        return tool

    return [make(number) for number in range(10)]


async def _play(url: str, episodes: int, concurrency: int) -> dict[str, float]:
    import verifiers as vf
    from datasets import Dataset  # type: ignore[import-untyped,unused-ignore]

    question = "When is my loan of Dune due? I am Ann Lee, ann@ex.org."
    rows = {"question": [question] * episodes, "answer": [""] * episodes}
    environment = vf.ToolEnv(
        tools=_tools(),
        dataset=Dataset.from_dict(rows),
        system_prompt="You help the members of a library. Be brief and exact.",
        rubric=vf.Rubric(funcs=[lambda completion, **_: 1.0]),
    )
    os.environ["PEER_KEY"] = "none"
    client = vf.ClientConfig(api_base_url=url, api_key_var="PEER_KEY")
    start = time.process_time()
    made = await environment.evaluate(
        client, "mock", {"temperature": 0.6}, max_concurrent=concurrency
    )
    spent = time.process_time() - start
    turns = [message for row in made["outputs"] for message in row["completion"]]
    return {"cpu_s": spent, "calls": sum(message["role"] == "assistant" for message in turns)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_play(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
