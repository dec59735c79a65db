"""Any OpenAI-compatible endpoint, through the `openai` package: the one file that imports it.

`client.post(cast_to=Response)` skips the package's typed request and response machinery, which
costs more CPU than the call (and accepts replies that are none); our own validator reads the bytes.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import httpx2
import openai
import orjson

from synth.core.config import ModelConfig
from synth.core.errors import BadConfig, ModelFailed
from synth.core.llm.reply import parse_reply
from synth.core.protocols import ChatRequest, Reply

_RETRYABLE = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 20.0


class OpenAIModel:
    """A model behind the `LLM` protocol.

    Args:
        config: model, endpoint, name of the key's environment variable, limits.

    Raises:
        BadConfig: the key's variable is not set (endpoints of one's own need none: any value).
    """

    def __init__(self, config: ModelConfig) -> None:
        key = os.environ.get(config.key_env)
        if not key and config.base_url is None:
            raise BadConfig(
                f"the environment variable {config.key_env} is not set",
                where=f"model {config.model!r}",
                remedy="set it, or give base_url of an endpoint that needs no key",
            )
        self.config = config
        self.name = f"openai:{config.model}"
        self._client = openai.AsyncOpenAI(
            api_key=key or "none", base_url=config.base_url, max_retries=0, timeout=config.timeout_s
        )
        # Jitter only spreads retries over time; nothing that is stored depends on it.
        self._jitter = random.Random()

    async def complete(self, request: ChatRequest) -> Reply:
        """Return a validated reply; retry what may pass, within `timeout_s` in all.

        Raises:
            ModelFailed: no usable reply in time, or the endpoint refused the request.
        """
        failures: list[str] = []
        try:
            async with asyncio.timeout(self.config.timeout_s):
                return await self._with_retries(self._body(request), failures)
        except TimeoutError as error:
            last = f"; the last try: {failures[-1]}" if failures else ""
            raise ModelFailed(
                f"no usable reply within {self.config.timeout_s:g} s{last}", where=self.name
            ) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        sampler = request.sampler
        body: dict[str, Any] = {
            "model": self.config.model,
            "messages": list(request.messages),
            "temperature": sampler.temperature,
            "top_p": sampler.top_p,
            "max_tokens": sampler.max_tokens,
        }
        if sampler.seed is not None:
            body["seed"] = sampler.seed
        if request.tools:
            body["tools"] = list(request.tools)
        if request.response_format is not None:
            body["response_format"] = request.response_format
        return body

    async def _with_retries(self, body: dict[str, Any], failures: list[str]) -> Reply:
        """Ask until there is a reply; `failures` says what went wrong so far."""
        wait = _FIRST_WAIT_S
        while True:
            floor = 0.0
            try:
                response = await self._client.post(
                    "/chat/completions", cast_to=httpx2.Response, body=body
                )
                return parse_reply(response.content, self.name)
            except openai.APIStatusError as error:
                if error.status_code not in _RETRYABLE:
                    raise ModelFailed(_status_line(error), where=self.name) from error
                floor = _retry_after(error)
                failures.append(_status_line(error))
            except (openai.APIConnectionError, ModelFailed) as error:
                # Network faults and malformed replies may pass; the deadline bounds us.
                failures.append(error.what if isinstance(error, ModelFailed) else str(error))
            await asyncio.sleep(max(floor, self._jitter.uniform(0, wait)))
            wait = min(2 * wait, _LONGEST_WAIT_S)


def _retry_after(error: openai.APIStatusError) -> float:
    try:
        return max(0.0, float(error.response.headers.get("retry-after", "0")))
    except ValueError:
        return 0.0


def _status_line(error: openai.APIStatusError) -> str:
    try:
        detail = orjson.loads(error.response.content)["error"]["message"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        detail = error.response.text[:200]
    return f"the endpoint answered {error.status_code}: {detail}"
