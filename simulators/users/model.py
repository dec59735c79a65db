"""A user played by a model, held to the same contract as the scripted one.

The model sees the persona, the wishes, the facts, the words of both sides and tools of its own, if
it has any; never the agent's, nor state or rubric. Its replies are checked, because simulated users
are a large part of failed episodes: notes to self and instructions do not reach the agent
(langwatch #7665), invented identifiers are refused (Kiln #1784), and a goodbye glued to the stop
token is delivered (tolokaforge #611).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from simulators.users.guard import PROMPTS, problem, untold
from synth.core import voices
from synth.core.canonical import canonical
from synth.core.errors import ToolloomError
from synth.core.hearing import hearing
from synth.core.prompts import prompts
from synth.core.protocols import LLM, ChatRequest, Finish, Reply, Sampler, Turn, UserView
from synth.core.types import Message, Usage

STOP = "###DONE###"
TRIES = 3
"""Replies asked for before the episode is given up as the user's fault."""
_STOP = re.compile(r"#{2,}\s*(DONE|STOP)\s*#{2,}", re.I)
_THOUGHT = re.compile(
    r"<(think|thinking|reasoning|note|notes|private)>.*?(</\1>|\Z)|\[(?:note|private)[^\]]*\]",
    re.S | re.I,
)
"""What a user thinks is never shown to the agent."""


class ModelUser:
    """Plays the user of one episode by asking a model for each message.

    Args:
        llm: the model.
        sampler: how its tokens are drawn.
        critic: chooses among drafts; None takes the first that can be delivered.
        candidates: drafts asked for where there is a critic (APIGen-MT 4.2: best of 4).
    """

    def __init__(
        self,
        llm: LLM,
        sampler: Sampler | None = None,
        critic: LLM | None = None,
        candidates: int = 1,
    ) -> None:
        self._llm, self._sampler = llm, sampler or Sampler(temperature=0.8, max_tokens=300)
        self._critic, self._candidates = critic, candidates if critic else 1
        prompt = f"user/{prompts(PROMPTS).hash('user')}"
        self.who = f"model:{llm.name}@{prompt} ({self._sampler})"
        if critic is not None:
            hashed = prompts(PROMPTS).hash("critic")
            self.who += f" best of {candidates} by {critic.name}@critic/{hashed}"

    async def turn(self, view: UserView) -> Turn:
        """Return the model's next message.

        Raises:
            ModelFailed: no usable reply from the endpoint.
            BudgetSpent: it may not be asked for.
            ToolloomError: the model cannot be brought to play a user: the user's fault.
        """
        spent: Usage | None = None
        drafts: list[Turn] = []
        why = ""
        for left in reversed(range(self._candidates + TRIES - 1)):
            reply = await self._llm.complete(self._request(view))
            spent = reply.usage if spent is None else spent + reply.usage
            draft, why = _draft(reply, view, last=not left)
            drafts += [draft] if draft else []
            if len(drafts) == self._candidates:
                break
        if not drafts:
            raise ToolloomError(f"the model playing the user failed: {why}", where=self._llm.name)
        return replace(await self._best(drafts, view), usage=spent)

    async def _best(self, drafts: Sequence[Turn], view: UserView) -> Turn:
        """Return the draft that the critic chooses; the first where it names none."""
        texts = [_shown(draft.message) for draft in drafts]
        if self._critic is None or len(set(texts)) == 1:
            return drafts[0]
        page = prompts(PROMPTS).render(
            "critic",
            persona=view.persona,
            clauses=view.clauses,
            facts=view.facts,
            talk=[m for m in view.messages if m.content and m.role != "tool"],
            drafts=texts,
        )
        request = ChatRequest([{"role": "user", "content": page}], (), Sampler(0.0, max_tokens=16))
        reply = await self._critic.complete(request)
        found = re.search(r"\d+", reply.message.content or "")
        chosen = int(found[0][:4]) if found else 1
        return drafts[chosen - 1 if 1 <= chosen <= len(drafts) else 0]

    def _request(self, view: UserView) -> ChatRequest:
        # Nobody can be asked to do anything before they have said what they want.
        tools = tuple(spec.openai() for spec in view.tools) if view.messages else ()
        return ChatRequest(self._messages(view), tools, self._sampler)

    def _messages(self, view: UserView) -> list[dict[str, Any]]:
        system = prompts(PROMPTS).render(
            "user",
            persona=view.persona,
            clauses=view.clauses,
            facts=view.facts,
            opening=view.opening,
            retracted=view.retracted,
            acts=[(act.words, f"{act.tool} {canonical(act.arguments)}") for act in view.acts],
            stop=STOP,
        )
        # To the model, the user's words are its own and the agent is who it talks to.
        turned = {"user": "assistant", "assistant": "user"}
        talk = [{**m.openai(), "role": turned.get(m.role, m.role)} for m in view.messages]
        start = {"role": "user", "content": "(You write first: say who you are and what you want.)"}
        return [{"role": "system", "content": system}, start, *talk]


def _draft(reply: Reply, view: UserView, *, last: bool) -> tuple[Turn | None, str]:
    """Return what can be delivered of a reply, or None and why it cannot."""
    calls = reply.message.tool_calls if view.tools and view.messages else ()
    if calls and not _withheld(reply):
        # What is said beside a call is no report of it yet.
        return Turn(Message(role="user", tool_calls=calls), repairs=reply.repairs), ""
    raw, done = _read(reply.message.content or "")
    text = " ".join(raw.split())
    why = _withheld(reply) or problem(raw, text, done=done, view=view)
    # An agent can still ask for what was left out: better late than not at all.
    why = why or ("" if last else untold(text, view))
    if why:
        return None, why
    message = Message(role="user", content=text or _goodbye(view))
    return Turn(message, done=done or _is_over(text, view), repairs=reply.repairs), ""


def _shown(message: Message) -> str:
    """Return a draft as its critic reads it."""
    calls = (f"[{call.name} {call.arguments}]" for call in message.tool_calls)
    return message.content or " ".join(calls)


def _withheld(reply: Reply) -> str:
    """Say why a reply cannot be delivered whatever it says; empty if it can."""
    if reply.finish == Finish.LENGTH:
        return "it was cut off"
    return "" if reply.usable else f"it gave no message: {reply.finish}"


def _read(content: str) -> tuple[str, bool]:
    """Return what is said, and whether the stop token stood with it."""
    text = _THOUGHT.sub("", content)
    done = _STOP.search(text) is not None
    return _STOP.sub(" ", text).strip(), done


def _goodbye(view: UserView) -> str:
    return voices.voice("plain", view.persona.language).say("thanks", random.Random(0))


def _is_over(text: str, view: UserView) -> bool:
    """Say whether a user takes leave without the stop token, as weak models do for ever.

    The agent has asked nothing and is not at work; otherwise its turn is still to come.
    """
    hears = hearing(view.persona.language)
    heard = _last_heard(view.messages)
    if not heard or hears.questions(heard) or hears.has("wait", heard):
        return False
    return hears.takes_leave(text)


def _last_heard(messages: Sequence[Message]) -> str:
    said = (m.content for m in reversed(messages) if m.role == "assistant" and m.content)
    return next(said, None) or ""
