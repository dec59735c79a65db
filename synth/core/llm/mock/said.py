"""An answer before it is put in the shape of the wire."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from synth.core.llm.mock.ask import Ask
from synth.core.llm.mock.plan import Usage

CREATED = 1_767_225_600
"""The time every reply bears: replies never depend on the clock."""
_PIECE = re.compile(r"\s*\S+|\s+")
_NO_TOKEN = -9.5
"""Log-probability of the tokens that were not drawn."""


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: text, or calls (name and argument text), or both."""

    content: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    finish: str = ""
    """Empty: as the content demands."""


def tokens(said: Said) -> int:
    """Return how many tokens an answer counts as: one for four bytes, never none."""
    size = len((said.content or "").encode(errors="surrogatepass"))
    size += sum(len(name) + len(arguments.encode()) + 8 for name, arguments in said.calls)
    return size // 4 + 1


def completion(ask: Ask, said: Said) -> dict[str, Any]:
    """Return the answer as a `chat.completion` object, new in all its parts."""
    message: dict[str, Any] = {"role": "assistant", "content": said.content}
    if said.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{ask.key[:16]}{index}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for index, (name, arguments) in enumerate(said.calls)
        ]
    finish = said.finish or ("tool_calls" if said.calls else "stop")
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
    if ask.body.get("logprobs") is True:
        choice["logprobs"] = {"content": _logprobs(said.content or "", ask.body)}
    spent = Usage(ask.prompt_tokens, tokens(said))
    return {
        "id": f"chatcmpl-{ask.key[:24]}",
        "object": "chat.completion",
        "created": CREATED,
        "model": ask.model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": spent.prompt,
            "completion_tokens": spent.completion,
            "total_tokens": spent.prompt + spent.completion,
        },
    }


def told_usage(body: dict[str, Any]) -> Usage | None:
    """Return the usage that a reply tells."""
    raw = body.get("usage")
    if not isinstance(raw, dict):
        return None
    return Usage(raw["prompt_tokens"], raw["completion_tokens"])


def _logprobs(text: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return log-probabilities of words as if each were a token; together they are the text."""
    wanted = body.get("top_logprobs")
    others = min(wanted, 20) if isinstance(wanted, int) else 0
    rows = []
    for piece in _PIECE.findall(text):
        first = _token(piece, -round(len(piece) % 7 * 0.05 + 0.01, 2))
        rest = [_token(f"{piece}{n}", _NO_TOKEN - n) for n in range(1, others)]
        rows.append({**first, "top_logprobs": [first, *rest] if others else []})
    return rows


def _token(text: str, logprob: float) -> dict[str, Any]:
    raw = text.encode(errors="surrogatepass")
    return {"token": text, "logprob": logprob, "bytes": list(raw)}
