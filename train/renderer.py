"""A conversation becomes token ids, train weights and message indices: once, piece by piece.

Shape suffix: `_T` counts tokens.

Text is never rendered as a whole and tokenised afterwards. Two things would be lost: that content
stays content (a user who writes `<|im_end|>` must not end a turn), and that what the model sampled
stays as it was sampled (byte-pair encoding is no bijection). So every piece of the format is
encoded alone, content can never become a control token, and a sampled reply is followed by
`suffix`, not by a new rendering.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from synth.core.errors import BadInput
from synth.core.formats import Parsed, Piece, ToolFormat
from synth.core.formats.base import Wire


@dataclass(slots=True)
class Rendered:
    """One conversation as tokens."""

    ids_T: list[int] = field(default_factory=list)
    weights_T: list[float] = field(default_factory=list)
    """How much predicting this token counts in the loss; 0 for what the model did not write."""
    messages_T: list[int] = field(default_factory=list)
    """Index of the message each token belongs to; -1 before the first."""

    def __len__(self) -> int:
        return len(self.ids_T)


class Renderer:
    """Writes conversations for one tokenizer in one format.

    Args:
        tokenizer: a Hugging Face fast tokenizer.
        tool_format: how turns and calls are written.

    Raises:
        BadInput: the tokenizer has no single token for the format's stop mark.
    """

    def __init__(self, tokenizer: Any, tool_format: ToolFormat) -> None:
        self.tokenizer = tokenizer
        self.format = tool_format
        added = {str(token): index for index, token in tokenizer.added_tokens_decoder.items()}
        self._added: dict[str, int] = added
        self._markers = sorted(added, key=len, reverse=True)
        self._ids_of_added = frozenset(added.values())
        if tool_format.stop not in added:
            raise BadInput(
                f"the tokenizer has no token {tool_format.stop!r}",
                remedy=f"use a chat model, or another format than {tool_format.name!r}",
            )
        self.stop_id: int = added[tool_format.stop]

    def render(self, messages: Sequence[Wire], tools: Sequence[Wire]) -> Rendered:
        """Return the whole conversation.

        An assistant message with `"weight": 0` is shown and not trained (the OpenAI fine-tuning
        convention); any other weight scales its tokens, its stop token included.

        Raises:
            Unwritable: a message this format has no text for.
        """
        weights = [float(message.get("weight", 1.0)) for message in messages]
        out = Rendered()
        for piece, ids in self._encoded(self.format.pieces(messages, tools)):
            out.ids_T += ids
            out.weights_T += [weights[piece.message] if piece.sampled else 0.0] * len(ids)
            out.messages_T += [piece.message] * len(ids)
        return out

    def prompt(self, messages: Sequence[Wire], tools: Sequence[Wire]) -> list[int]:
        """Return the tokens after which the next assistant turn is sampled.

        A token prefix of `render` of every conversation that goes on with an assistant message.
        """
        pieces = self.format.pieces(messages, tools, cue=True)
        return [token for _, ids in self._encoded(pieces) for token in ids]

    def suffix(self, messages: Sequence[Wire], tools: Sequence[Wire], *, after: int) -> list[int]:
        """Return the tokens between the sampled turn `after` and the next assistant turn.

        Appended to what was sampled, stop token included, they make the next prompt without
        encoding any sampled text again.

        Args:
            messages: the conversation up to now.
            tools: as declared at its start.
            after: index of the last assistant message.
        """
        pieces = self.format.pieces(messages, tools, cue=True)
        last = max(n for n, piece in enumerate(pieces) if piece.sampled and piece.message == after)
        return [token for _, ids in self._encoded(pieces[last + 1 :]) for token in ids]

    def parse(self, ids: Sequence[int], *, first_call: int = 0) -> Parsed:
        """Read a sampled reply; a trailing stop token is not part of it."""
        body = list(ids)
        if body and body[-1] == self.stop_id:
            body.pop()
        return self.format.parse(self.decode(body), first_call=first_call)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, control tokens written out."""
        return str(
            self.tokenizer.decode(
                list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    def encode_content(self, text: str) -> list[int]:
        """Encode text that must not become a control token, whatever it says."""
        ids: list[int] = self.tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
        if self._ids_of_added.isdisjoint(ids):
            return ids
        # Added tokens that are not flagged special are matched even so: cut each after its first
        # character, where no token can match across the cut.
        return [token for part in self._cut(text) for token in self._encode_part(part)]

    def _encode_part(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
        if not self._ids_of_added.isdisjoint(ids):
            raise BadInput(
                f"the tokenizer turns {text[:40]!r} into a control token and cannot be told not to",
                remedy="use another tokenizer",
            )
        return ids

    def _cut(self, text: str) -> Iterable[str]:
        start = 0
        for position in range(len(text)):
            if any(text.startswith(marker, position) for marker in self._markers):
                yield text[start : position + 1]
                start = position + 1
        if start < len(text):
            yield text[start:]

    def _encoded(self, pieces: Sequence[Piece]) -> Iterable[tuple[Piece, list[int]]]:
        """Encode pieces; neighbours of one origin are encoded together, as a model writes them."""
        pending: Piece | None = None
        for piece in pieces:
            control = piece.control and piece.text in self._added
            same = pending is not None and (pending.message, pending.sampled) == (
                piece.message,
                piece.sampled,
            )
            if pending is not None and same and not control:
                pending = Piece(pending.text + piece.text, piece.message, sampled=piece.sampled)
                continue
            if pending is not None:
                yield pending, self.encode_content(pending.text)
            pending = None if control else piece
            if control:
                yield piece, [self._added[piece.text]]
        if pending is not None:
            yield pending, self.encode_content(pending.text)
