"""Any OpenAI-compatible endpoint behind the `LLM` protocol.

One call is a few requests at most: what may pass (408, 409, 429, 5xx, network, malformed and
incomplete replies) is asked again until it works or the call's time is over; what the *model* did
(refused, was cut off, called a tool that does not exist) is an outcome and comes back as it is.
"""

from __future__ import annotations

import asyncio
import json
from codecs import BOM_UTF8 as BOM
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from synth.core.config import ModelConfig
from synth.core.errors import ModelFailed
from synth.core.formats import Unwritable
from synth.core.llm import astext
from synth.core.llm.endpoint import Endpoint, NetworkFault, Refused, Unreachable
from synth.core.llm.ledger import Ledger, Ticket, most_tokens
from synth.core.llm.patience import retry_after
from synth.core.llm.reply import BadReply, load_json, read_reply, said_by, without_surrogates
from synth.core.llm.stream import parse_stream
from synth.core.protocols import ChatRequest, Finish, Reply
from synth.core.types import Message, Usage

BUSY = frozenset({429, 503, 529})
"""Everybody is asked to wait."""
PASSING = BUSY | {408, 409, 500, 502, 504}
TRIES = 8
"""Requests of one call that may fail, those refused by a busy endpoint not counted."""
EMPTY_TRIES = 3
"""Empty replies after which a model is believed to have nothing to say."""
_FINAL = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes of a 429 that no waiting helps."""
_TOO_LONG = ("context_length", "context length", "context window", "maximum context", "too long")


@dataclass(slots=True)
class _Call:
    """One call while it lasts."""

    body: bytes
    request: ChatRequest
    tools: tuple[Mapping[str, Any], ...]
    deadline: float
    attempts: int = 0
    failures: int = 0
    """Tries that failed, the endpoint's being busy not counted."""
    empty: int = 0
    last: str = ""
    """What went wrong the last time."""


class OpenAIModel:
    """A model at an OpenAI-compatible endpoint.

    Args:
        config: model, endpoint, name of the key's environment variable, limits.
        role: whose account its cost is entered in.
        endpoint: the one to share with other roles; its own if left out.
        ledger: the run's books; its own if left out.

    Raises:
        BadConfig: the key's variable is not set, or a price is missing.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        role: str = "agent",
        endpoint: Endpoint | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.config = config
        self.name = f"openai:{config.model}"
        self.endpoint = Endpoint(config) if endpoint is None else endpoint
        self.endpoint.patience.widen(config.concurrency)
        self.ledger = Ledger() if ledger is None else ledger
        self.account = self.ledger.open(role, config)
        self._format = None if config.tool_calls == "native" else astext.format_of(config)
        self._attempt_s = config.attempt_s or config.timeout_s / 2

    async def complete(self, request: ChatRequest) -> Reply:
        """Return a validated reply; ask again for what may pass, within `timeout_s` in all.

        Raises:
            ModelFailed: no usable reply in time, or the endpoint refused the request.
            BudgetSpent: the ledger allows no further request.
        """
        timeout = self.config.timeout_s
        call = _Call(
            body=self._body(request),
            request=request,
            tools=tuple(request.tools),
            deadline=asyncio.get_running_loop().time() + timeout,
        )
        try:
            async with asyncio.timeout(timeout):
                while True:
                    reply = await self._try(call)
                    if reply is not None:
                        return self._read_text(reply, request)
        except TimeoutError as error:
            last = f"; the last try: {call.last}" if call.last else ""
            what = f"no usable reply within {timeout:g} s{last}"
            raise ModelFailed(what, where=self.name, outcome="timeout") from error

    async def close(self) -> None:
        """Close the connections, those of other roles at this endpoint too."""
        await self.endpoint.close()

    # --- the request -------------------------------------------------------------------------

    def _body(self, request: ChatRequest) -> bytes:
        sampler, messages, tools = request.sampler, request.messages, request.tools
        if self._format is not None:
            try:
                messages, tools = astext.write(messages, tools, self._format), ()
            except Unwritable as error:
                raise ModelFailed(str(error), where=self.name, outcome="rejected") from error
        body: dict[str, Any] = {
            "model": self.config.model,
            "messages": self._history(messages),
            "temperature": sampler.temperature,
            "top_p": sampler.top_p,
            "max_tokens": sampler.max_tokens,
        }
        if sampler.seed is not None:
            body["seed"] = sampler.seed
        if tools:
            body["tools"] = tools
        if request.response_format is not None:
            body["response_format"] = request.response_format
        if request.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if self.config.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        try:
            return orjson.dumps(body)
        except TypeError:  # half of a surrogate pair, or an integer beyond 64 bits in a schema
            return json.dumps(_encodable(body), ensure_ascii=False).encode()

    def _history(self, messages: Any) -> list[Mapping[str, Any]]:
        """Return the messages with earlier reasoning as this endpoint wants it."""
        if self.config.reasoning == "omit":
            return [
                {key: value for key, value in message.items() if key != "reasoning_content"}
                if "reasoning_content" in message
                else message
                for message in messages
            ]
        return [
            {"reasoning_content": "", **message} if message["role"] == "assistant" else message
            for message in messages
        ]

    # --- one try -----------------------------------------------------------------------------

    async def _try(self, call: _Call) -> Reply | None:
        """Send one request; None if it failed and may be sent again, after a due wait.

        Raises:
            ModelFailed: asking again is of no use, or there is no time left for it.
        """
        patience = self.endpoint.patience
        self._check_pause(call)
        most = most_tokens(call.body)
        ticket = await self.ledger.reserve(self.account, most, call.request.sampler.max_tokens)
        try:
            sent = await patience.enter()
            try:
                reply = await self._answer(call, ticket)
            finally:
                patience.leave()
            patience.ok(sent)
            return reply
        except Refused as refused:
            wait = self._refused(call, refused, sent)
            if wait is None:
                return _cut_short()
        except BadReply as error:
            patience.ok(sent)
            ticket.status, ticket.usage = error.outcome, error.usage
            if error.outcome == "empty":
                call.empty += 1
                if call.empty == EMPTY_TRIES:
                    return Reply(_NOTHING, Finish.STOP, "", error.usage, ("empty",))
            wait = self._failed(call, error.what, error.outcome)
        except Unreachable as error:
            ticket.sent = False
            call.attempts -= 1  # it had no attempt yet
            if not patience.answered:  # it was never there: most likely, the address is wrong
                raise ModelFailed(
                    f"nobody answers at {self.endpoint.name}: {error}",
                    where=self.name,
                    remedy="start the endpoint, or correct base_url",
                    outcome="unreachable",
                ) from error
            wait = self._failed(call, str(error), "unreachable")
        except NetworkFault as error:
            patience.answered = True
            wait = self._failed(call, str(error), error.outcome)
        finally:
            self.ledger.close(ticket)
        await patience.rest(wait)
        return None

    async def _answer(self, call: _Call, ticket: Ticket) -> Reply:
        """Send the request and read what comes; the ticket is told what became of it."""
        self.endpoint.open()
        headers = {"X-Toolloom-Attempt": str(call.attempts)}
        if call.request.call is not None:
            headers["X-Toolloom-Call"] = call.request.call
        self.ledger.send(ticket, call.request.call, call.attempts)
        call.attempts += 1
        stream = self.config.stream
        try:
            async with asyncio.timeout(self._attempt_s):
                data = await self.endpoint.ask(call.body, headers, stream=stream)
        except TimeoutError as error:
            ticket.status = "timeout"
            what = f"no whole reply within {self._attempt_s:g} s"
            raise NetworkFault(what, outcome="timeout") from error
        except Refused as refused:
            ticket.status = refused.status
            raise
        must_finish = self.config.finish_reason == "required"
        whole = parse_stream(data, self.name) if stream else load_json(data, self.name)
        reply = read_reply(whole, self.name, tools=call.tools, must_finish=must_finish)
        ticket.status, ticket.usage = 200, reply.usage
        odd = ("bom",) * data.startswith(BOM)
        odd += ("not_streamed",) * (stream and b"data:" not in data)
        return replace(reply, repairs=(*odd, *reply.repairs)) if odd else reply

    def _check_pause(self, call: _Call) -> None:
        """Give up at once where the endpoint wants no request before the call's time is over."""
        left = call.deadline - asyncio.get_running_loop().time()
        if self.endpoint.patience.pause_left() > left:
            what = f"{self._busy_line()}, which is later than this call may take"
            raise ModelFailed(what, where=self.name, outcome="busy")

    def _busy_line(self) -> str:
        patience = self.endpoint.patience
        until = datetime.now().astimezone() + timedelta(seconds=patience.pause_left())
        return f"{patience.why}: no request before {until:%H:%M:%S}"

    def _refused(self, call: _Call, refused: Refused, sent: int) -> float | None:
        """Return the seconds to wait after a status that is no success.

        None where the conversation is longer than the model's context: an outcome.

        Raises:
            ModelFailed: it will not pass.
        """
        status, patience = refused.status, self.endpoint.patience
        patience.answered = True
        code, said = _said(refused.body)
        if 300 <= status < 400:
            said = f"it has moved to {refused.headers.get('location', 'nowhere')}; mend base_url"
        said = self.endpoint.scrub(said)
        line = f"the endpoint answered {status}: {said}"
        wanted = retry_after(refused.headers)
        if status in BUSY and code not in _FINAL:
            call.last = line
            patience.busy(sent, f"{self.endpoint.name} answered {status}: {said}", wanted)
            self._check_pause(call)
            return 0.0  # the queue keeps it until the endpoint's time has come
        if status in PASSING and code not in _FINAL:
            return max(wanted, self._failed(call, line, "server"))
        if status in (400, 413, 422) and any(
            word in f"{code} {said}".lower() for word in _TOO_LONG
        ):
            return None
        raise ModelFailed(line, where=self.name, outcome="rejected")

    def _failed(self, call: _Call, what: str, outcome: str) -> float:
        """Note a failure; return the seconds until the next try.

        Raises:
            ModelFailed: it was the last one.
        """
        call.failures += 1
        call.last = self.endpoint.scrub(what)
        if call.failures >= TRIES:
            line = f"{TRIES} tries failed; the last one: {call.last}"
            raise ModelFailed(line, where=self.name, outcome=outcome)
        return self.endpoint.patience.back_off(call.failures - 1)

    def _read_text(self, reply: Reply, request: ChatRequest) -> Reply:
        """Read calls out of the text, for endpoints that return them so."""
        if self._format is None:
            return reply
        return astext.read(reply, request.messages, request.tools, self._format)


_NOTHING = Message(role="assistant")


def _cut_short() -> Reply:
    """Return what a model says that its context is too short for: nothing."""
    return Reply(_NOTHING, Finish.LENGTH, "", Usage(), ("context_exceeded",))


def _said(body: bytes) -> tuple[str, str]:
    """Return the code and the words of an error's body."""
    try:
        error = load_json(body, "")
    except BadReply:
        return "", " ".join(body[:200].decode(errors="replace").split())
    if isinstance(error, dict) and error.get("error"):
        error = error["error"]
    code = error.get("code") if isinstance(error, dict) else None
    return str(code or ""), said_by(error)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(member) for member in value]
    return value
