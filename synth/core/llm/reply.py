"""The validator of every model reply: a 200 is not yet an answer.

Endpoints return 200 with no choices, with an error body, with HTML, with arguments as objects, with
empty call ids, with lone surrogates. Each is a `BadReply` here, or is repaired where the meaning is
beyond doubt, and the repair is recorded; what the *agent* got wrong (broken argument text, an
unknown tool, a refusal) is left as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from synth.core.errors import ModelFailed
from synth.core.formats import fit_call
from synth.core.protocols import Finish, Reply
from synth.core.types import Message, ToolCall, Usage

_FINISH: dict[str, str] = {
    **dict.fromkeys(("eos", "end_turn", "stop_sequence", "eos_token"), Finish.STOP),
    **dict.fromkeys(("function_call", "tool_use", "tool_call"), Finish.TOOL_CALLS),
    **dict.fromkeys(("max_tokens", "model_length", "max_output_tokens"), Finish.LENGTH),
    **dict.fromkeys(("content-filter", "safety", "recitation"), Finish.CONTENT_FILTER),
}
"""Words of some endpoints for what others call by the usual name."""
_BROKEN_OFF = frozenset({"error", "abort", "cancelled", "insufficient_system_resource"})
"""The endpoint ended it: the reply is incomplete."""
_MAY_FIT = re.compile(r'\A\s*(\Z|")|"\s*[\[{]')
"""Arguments that may be no object but its text, or hold text of a list or an object."""
_THOUGHT = re.compile(r"\s*<think>(.*?)</think>\s*", re.S)


class BadReply(ModelFailed):
    """A reply that is none. `outcome` is malformed, incomplete or empty; it may pass.

    `usage` is what it cost all the same, where it says so.
    """

    def __init__(self, what: str, *, where: str, outcome: str = "malformed") -> None:
        super().__init__(what, where=where, outcome=outcome)
        self.usage = Usage()


def parse_reply(
    body: bytes, where: str, *, tools: Sequence[Mapping[str, Any]] = (), must_finish: bool = True
) -> Reply:
    """Parse a chat-completions response.

    Args:
        body: what came.
        where: who it came from, for the message.
        tools: those on offer, which tell what arguments are meant to be.
        must_finish: refuse a reply that does not say why it ended.

    Raises:
        BadReply: it is not a usable reply; says why.
    """
    return read_reply(load_json(body, where), where, tools=tools, must_finish=must_finish)


def load_json(body: bytes, where: str) -> Any:
    """Parse JSON as endpoints write it: a byte order mark and lone surrogates do no harm.

    Raises:
        BadReply: it is no JSON.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        what = "the reply is empty" if not body.strip() else f"the reply is not JSON: {body[:80]!r}"
        raise BadReply(what, where=where) from error


def read_reply(
    data: Any, where: str, *, tools: Sequence[Mapping[str, Any]] = (), must_finish: bool = True
) -> Reply:
    """Read a decoded chat-completions response; see `parse_reply`."""
    if not isinstance(data, dict):
        raise BadReply("the reply is not an object", where=where)
    usage = usage_of(data)
    try:
        return _Reading(where, tools).reply(data, usage, must_finish)
    except BadReply as error:
        error.usage = usage
        raise


class _Reading:
    """Reads one reply and remembers what it repaired."""

    def __init__(self, where: str, tools: Sequence[Mapping[str, Any]]) -> None:
        self.where, self.tools = where, tools
        self.repairs: list[str] = []

    def bad(self, what: str, outcome: str = "malformed") -> BadReply:
        return BadReply(what, where=self.where, outcome=outcome)

    def reply(self, data: dict[str, Any], usage: Usage, must_finish: bool) -> Reply:
        if data.get("error"):
            raise self.bad(f"a 200 with an error: {said_by(data['error'])}")
        choices = data.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise self.bad(f"the reply has no choices: {_excerpt(data)}")
        choice = choices[0]
        finish = self.finish(choice.get("finish_reason"), must_finish)
        raw = choice.get("message")
        if not isinstance(raw, dict):
            raise self.bad("the reply has no message")
        refusal = raw.get("refusal")
        if isinstance(refusal, str) and refusal.strip():
            finish = Finish.REFUSAL
            raw = {**raw, "content": raw.get("content") or refusal}
        # A model that thought until its tokens were used up failed; its endpoint did not.
        may_be_empty = finish in (Finish.LENGTH, Finish.CONTENT_FILTER)
        return Reply(
            message=self.message(raw, may_be_empty=may_be_empty),
            finish=finish,
            model=str(data.get("model") or ""),
            usage=usage,
            repairs=tuple(dict.fromkeys(self.repairs)),
            logprobs=_logprobs(choice.get("logprobs")),
        )

    def finish(self, raw: Any, must_finish: bool) -> str:
        if not isinstance(raw, str) or not raw:
            if must_finish:
                what = "the reply does not say why it ended: it may be cut off"
                raise self.bad(what, "incomplete")
            return Finish.STOP
        if raw.lower() in _BROKEN_OFF:
            raise self.bad(f"the endpoint broke the reply off: {raw}", "incomplete")
        return _FINISH.get(raw.lower(), raw)

    def message(self, raw: dict[str, Any], *, may_be_empty: bool) -> Message:
        content = self.content(raw.get("content"))
        reasoning = raw.get("reasoning_content") or raw.get("reasoning")
        reasoning = self.clean(reasoning) if isinstance(reasoning, str) else None
        thought = _THOUGHT.match(content) if content and "</think>" in content else None
        if content and thought:
            self.repairs.append("think_tags")
            content = content[thought.end() :]
            reasoning = reasoning or thought[1].strip() or None
        message = Message(
            role="assistant",
            content=content,
            reasoning=reasoning,
            tool_calls=self.calls(raw.get("tool_calls") or []),
        )
        if not (message.tool_calls or may_be_empty or (content and content.strip())):
            raise self.bad("the reply has neither text nor a call", "empty")
        return message

    def content(self, raw: Any) -> str | None:
        if isinstance(raw, list):  # parts, as they are sent to models
            texts = [part.get("text") if isinstance(part, dict) else None for part in raw]
            known = [text for text in texts if isinstance(text, str)]
            if len(known) == len(raw):
                self.repairs.append("content_parts")
                raw = "".join(known)
        if raw is not None and not isinstance(raw, str):
            raise self.bad("the content is not text")
        return None if raw is None else self.clean(raw)

    def calls(self, raw: Any) -> tuple[ToolCall, ...]:
        if not isinstance(raw, list):
            raise self.bad("tool_calls is not a list")
        given = {call.get("id") for call in raw if isinstance(call, dict)} if len(raw) > 1 else ()
        taken: set[str] = set()
        found = []
        for index, call in enumerate(raw):
            found.append(self.call(call, index, taken, given))
            taken.add(found[-1].id)
        return tuple(found)

    def call(self, raw: Any, index: int, taken: set[str], given: Any) -> ToolCall:
        function = raw.get("function") if isinstance(raw, dict) else None
        if not isinstance(function, dict):
            raise self.bad(f"tool call {index} has no function")
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str) or not name.strip():
            raise self.bad(f"tool call {index} has no name")
        if not isinstance(arguments, (str, dict, type(None))):
            raise self.bad(f"tool call {index} has no argument text")
        identifier = raw.get("id")
        if not isinstance(identifier, str) or not identifier or identifier in taken:
            self.repairs.append("duplicate_id" if identifier in taken else "missing_id")
            number = index
            while (identifier := f"call_{number}") in taken or identifier in given:
                number += 1
        if isinstance(arguments, dict):
            self.repairs.append("arguments_as_object")
            arguments = json.dumps(arguments, ensure_ascii=False)
        text = self.clean(arguments or "")
        call = ToolCall(id=self.clean(identifier), name=self.clean(name), arguments=text)
        if _MAY_FIT.search(text) is None:
            return call
        call, notes = fit_call(call, _schema(call.name, self.tools))
        self.repairs += notes
        return call

    def clean(self, text: str) -> str:
        """Replace what no file, database or terminal can keep."""
        if text.isascii() and "\0" not in text:
            return text
        if "\0" in text:
            self.repairs.append("nul")
            text = text.replace("\0", "\ufffd")
        if text.startswith("\ufeff"):
            self.repairs.append("bom")
            text = text.lstrip("\ufeff")
        paired = without_surrogates(text)
        if paired.count("\ufffd") > text.count("\ufffd"):
            self.repairs.append("lone_surrogate")
        return paired


def _excerpt(data: Any) -> str:
    """Return the beginning of what came instead of a reply: it may say what is wrong."""
    return said_by(json.dumps(data, ensure_ascii=False))


def _schema(name: str, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, dict) and function.get("name") == name:
            schema = function.get("parameters")
            return schema if isinstance(schema, dict) else {}
    return {}


def without_surrogates(text: str) -> str:
    """Join halves of pairs into their character; a lone half becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def said_by(error: Any) -> str:
    """Return what the error object of an endpoint says, in one line."""
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(without_surrogates(str(message or error)).split())[:200]


def usage_of(data: Mapping[str, Any]) -> Usage:
    """Return the tokens that a decoded reply tells; what it does not tell is unknown."""
    raw = data.get("usage")
    if not isinstance(raw, dict):
        return Usage()
    details = raw.get("prompt_tokens_details")
    return Usage(
        prompt_tokens=_count(raw.get("prompt_tokens")),
        completion_tokens=_count(raw.get("completion_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
    )


def _count(value: Any) -> int | None:
    """Return a number of tokens; what is none is unknown, which is not 0."""
    return value if isinstance(value, int) and value >= 0 and value is not True else None


def _logprobs(raw: Any) -> tuple[dict[str, float], ...] | None:
    places = raw.get("content") if isinstance(raw, dict) else None
    if not isinstance(places, list):
        return None
    found = []
    for place in places:
        if not isinstance(place, dict):
            return None
        others = place.get("top_logprobs")
        listed = [place, *(others if isinstance(others, list) else ())]
        found.append(
            {
                without_surrogates(one["token"]): float(one["logprob"])
                for one in listed
                if isinstance(one, dict)
                and isinstance(one.get("token"), str)
                and isinstance(one.get("logprob"), (int, float))
            }
        )
    return tuple(found)
