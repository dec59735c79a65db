"""ChatML turns: `<|im_start|>ROLE`, a line break, the text, `<|im_end|>`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synth.core.formats.base import Piece, Wire

STOP = "<|im_end|>"


def conversation(
    messages: Sequence[Wire],
    declared: str,
    body: Callable[[Wire, int], Sequence[Piece]],
    *,
    cue: bool,
) -> list[Piece]:
    """Write a conversation in ChatML; see `ToolFormat.pieces`.

    Args:
        messages: OpenAI-shape messages.
        declared: the tools as text, for the end of the system turn; empty where there are none.
        body: writes an assistant's message, from the message and its index.
        cue: end with the opening of an assistant's turn.
    """
    out: list[Piece] = []
    first = 0
    if declared:
        first = 1 if messages and messages[0]["role"] == "system" else 0
        system = str(messages[0].get("content") or "") if first else ""
        text = f"{system}\n\n{declared}" if system else declared
        out += _turn("system", (Piece(text, first - 1),), first - 1)
    for index, message in enumerate(messages[first:], first):
        role = message["role"]
        if role == "assistant":
            out += _turn(role, body(message, index), index, sampled=True)
        else:
            out += _turn(role, (Piece(str(message.get("content") or ""), index),), index)
    if cue:
        out += _open("assistant", len(messages))
    return out


def _open(role: str, index: int) -> tuple[Piece, ...]:
    return (Piece("<|im_start|>", index, control=True), Piece(f"{role}\n", index))


def _turn(role: str, body: Sequence[Piece], index: int, *, sampled: bool = False) -> list[Piece]:
    end = Piece(STOP, index, control=True, sampled=sampled)
    return [*_open(role, index), *body, end, Piece("\n", index)]
