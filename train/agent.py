"""The trained model as the agent of an episode: token in, token out, many episodes in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from synth.core import seeds
from synth.core.errors import ModelFailed
from synth.core.protocols import AgentView, Turn
from synth.core.types import Message, Usage
from train.batches import Row
from train.engine import Drawn, Engine, Sampling
from train.renderer import Renderer


class SharedSampler:
    """Serves many episodes at once: when all of them wait, one `sample` continues them all.

    Args:
        engine: draws the tokens.
        sampling: the same for every episode.
        players: how many episodes take part; a batch waits until each of them asks or leaves.
    """

    def __init__(self, engine: Engine, sampling: Sampling, *, players: int) -> None:
        self.engine, self.sampling = engine, sampling
        self.error: Exception | None = None
        """What the engine raised, if it did: no episode of this sampler means anything then."""
        self._players = players
        self._waiting: list[tuple[Sequence[int], int, asyncio.Future[Drawn]]] = []
        self._serving: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """Take part no longer: the episode is over."""
        self._players -= 1
        self._serve_if_all_wait()

    async def draw(self, ids: Sequence[int], *, seed: int) -> Drawn:
        """Return the continuation of `ids`.

        Raises:
            ModelFailed: the engine broke; see `error`.
        """
        future: asyncio.Future[Drawn] = asyncio.get_running_loop().create_future()
        self._waiting.append((ids, seed, future))
        self._serve_if_all_wait()
        return await future

    def _serve_if_all_wait(self) -> None:
        free = self._serving is None or self._serving.done()
        if self._waiting and free and len(self._waiting) >= self._players:
            self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        # Who asked first is chance where worlds answer in their own time; the order of a batch
        # must not be, or the last digits of what is computed would be chance too.
        batch, self._waiting = sorted(self._waiting, key=lambda one: one[1]), []
        prompts, numbers = [ids for ids, _, _ in batch], [seed for _, seed, _ in batch]
        try:
            drawn = await asyncio.to_thread(self.engine.sample, prompts, self.sampling, numbers)
        except Exception as error:  # whoever waits must hear of it; the caller raises it again
            self.error = error
            for _, _, future in batch:
                if not future.done():
                    future.set_exception(ModelFailed(f"the engine failed: {error}"))
            return
        for (_, _, future), one in zip(batch, drawn, strict=True):
            if not future.done():
                future.set_result(one)


class EnginePlayer:
    """An `AgentPlayer` that keeps what it sampled as tokens.

    A reply that cannot be read (broken JSON) becomes a message with neither text nor calls, one cut
    off at the limit is recorded and not acted on: either ends the episode as the agent's own
    failure, and so does a conversation that outgrows the context; `problems` says which. A first
    prompt that does not fit is no failure of a model that never got to speak.

    Args:
        sampler: shared with the other episodes.
        renderer: of the model.
        seed: of this episode's draws.
        context: most tokens of the conversation; a longer one ends the episode.
        name: of the model, for the record.
    """

    def __init__(
        self,
        sampler: SharedSampler,
        renderer: Renderer,
        *,
        seed: int,
        context: int = 4096,
        name: str = "engine",
    ) -> None:
        self._sampler, self._renderer = sampler, renderer
        self._seed, self._context = seed, context
        self.who = f"model:{name}@{sampler.engine.version}"
        self.ids: list[int] = []
        """The whole conversation as tokens: what was shown and what was sampled."""
        self.sampled: list[bool] = []
        self.logprobs: list[float] = []
        """Of the sampled tokens, as the sampler computed them."""
        self.versions: set[int] = set()
        self.problems: list[str] = []
        self.repairs: list[str] = []
        self._turns = 0

    async def turn(self, view: AgentView) -> Turn:
        """Return the model's next message.

        Raises:
            ModelFailed: the engine broke, or not even the first prompt fits the context.
        """
        messages = [message.openai() for message in view.messages]
        tools = [tool.openai() for tool in view.tools]
        shown = (
            self._renderer.suffix(messages, tools, after=self._last_own(view.messages))
            if self.ids
            else self._renderer.prompt(messages, tools)
        )
        room = self._context - self._sampler.sampling.max_tokens - len(self.ids)
        if len(shown) > room and not self.ids:
            raise ModelFailed(f"the prompt has {len(shown)} tokens, the context room for {room}")
        if len(shown) > room:
            return self._unusable("context_full")
        self._record(shown, sampled=False)
        self._turns += 1
        drawn = await self._sampler.draw(self.ids, seed=seeds.seed(self._seed, self._turns))
        prompt_tokens = len(self.ids)
        self._record(drawn.ids, sampled=True)
        self.logprobs += drawn.logprobs
        self.versions.add(drawn.version)
        usage = Usage(prompt_tokens=prompt_tokens, completion_tokens=len(drawn.ids))
        if drawn.finish == "length":
            self.problems.append("cut_off")
            said = self._renderer.decode(drawn.ids)
            return Turn(Message(role="assistant", content=said), usage=usage, cut_off=True)
        made = sum(len(message.tool_calls) for message in view.messages)
        parsed = self._renderer.parse(drawn.ids, first_call=made)
        self.repairs += parsed.repairs
        if parsed.problem is not None:
            return self._unusable(str(parsed.problem), usage)
        message = Message(role="assistant", content=parsed.content, tool_calls=parsed.calls)
        return Turn(message, usage=usage)

    def row(self) -> Row:
        """Return the episode as a row to learn from: exactly the sampled tokens are trained."""
        return Row(self.ids, [1.0 if sampled else 0.0 for sampled in self.sampled])

    def _record(self, ids: Sequence[int], *, sampled: bool) -> None:
        self.ids += ids
        self.sampled += [sampled] * len(ids)

    def _unusable(self, problem: str, usage: Usage | None = None) -> Turn:
        self.problems.append(problem)
        return Turn(Message(role="assistant"), usage=usage)

    @staticmethod
    def _last_own(messages: Sequence[Message]) -> int:
        return max(n for n, message in enumerate(messages) if message.role == "assistant")
