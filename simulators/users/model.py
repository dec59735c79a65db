"""A user played by a model, held to the same contract as the scripted one.

The model sees the persona, the wishes, the facts and the words of both sides; never tools, state or
rubric. Its replies are checked, because simulated users are a large part of failed episodes: notes
to self and instructions do not reach the agent (langwatch #7665), invented identifiers are
refused (Kiln #1784), and a goodbye glued to the stop token is delivered (tolokaforge #611).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from synth.core.errors import ToolloomError
from synth.core.prompts import prompts
from synth.core.protocols import LLM, ChatRequest, Finish, Reply, Sampler, Turn, UserView
from synth.core.types import Message, Usage

STOP = "###DONE###"
TRIES = 3
"""Replies asked for before the episode is given up as the user's fault."""
_PROMPTS = "simulators.users.prompts"
_STOP = re.compile(r"#{2,}\s*(DONE|STOP)\s*#{2,}", re.I)
_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.S | re.I)
_LEAK = re.compile(
    r"\b(as (the|a) (user|customer|simulated)|my (role|instructions|persona|rules)|"
    r"the (user|customer) (should|would|wants)|stay in (role|character)|role-?play|"
    r"system prompt)\b",
    re.I,
)
_AGENT_LIKE = re.compile(
    r"\b(how (can|may) I (help|assist)|I('d| would) be happy to (help|assist) you|"
    r"is there anything else I can (do|help)|let me (check|look)\b[^.?!]{0,40}\bfor you|"
    r"I('ve| have|'ll| will) (just |now )?(book|cancel|chang|check|creat|mov|process|refund|"
    r"schedul|updat)\w*[^.?!,]{0,40}\b(for you|your))\b|"
    r"(^|[.?!] )(agent|assistant|clerk|representative|support) ?:",
    re.I,
)
"""The other side's words, also at the end: models write the whole conversation."""
_IDENTIFIER = re.compile(
    r"[\w.+-]+@[\w-]+\.[\w.-]*\w|(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{3,}|\d{4,}"
)


class ModelUser:
    """Plays the user of one episode by asking a model for each message.

    Args:
        llm: the model.
        sampler: how its tokens are drawn.
    """

    def __init__(self, llm: LLM, sampler: Sampler | None = None) -> None:
        self._llm, self._sampler = llm, sampler or Sampler(temperature=0.8, max_tokens=300)
        prompt = f"user/{prompts(_PROMPTS).hash('user')}"
        self.who = f"model:{llm.name}@{prompt} ({self._sampler})"

    async def turn(self, view: UserView) -> Turn:
        """Return the model's next message.

        Raises:
            ModelFailed: no usable reply from the endpoint.
            BudgetSpent: it may not be asked for.
            ToolloomError: the model cannot be brought to play a user: the user's fault.
        """
        messages = self._messages(view)
        spent: Usage | None = None
        problem = ""
        for _ in range(TRIES):
            reply = await self._llm.complete(ChatRequest(messages, (), self._sampler))
            spent = reply.usage if spent is None else spent + reply.usage
            text, done = _read(reply.message.content or "")
            problem = _withheld(reply) or _problem(text, done, view)
            if not problem:
                said = text or "Thank you, goodbye."
                message = Message(role="user", content=said)
                return Turn(message, done=done, usage=spent, repairs=reply.repairs)
        raise ToolloomError(f"the model playing the user {problem}", where=self._llm.name)

    def _messages(self, view: UserView) -> list[dict[str, Any]]:
        system = prompts(_PROMPTS).render(
            "user", persona=view.persona, clauses=view.clauses, facts=view.facts, stop=STOP
        )
        # To the model, the user's words are its own and the agent is who it talks to.
        turned = {"user": "assistant", "assistant": "user"}
        talk = [{"role": turned[m.role], "content": m.content} for m in view.messages]
        start = {"role": "user", "content": "(You write first: say who you are and what you want.)"}
        return [{"role": "system", "content": system}, start, *talk]


def _withheld(reply: Reply) -> str:
    """Say why a reply cannot be delivered whatever it says; empty if it can."""
    if reply.finish == Finish.LENGTH:
        return "was cut off"
    return "" if reply.usable else f"gave no message: {reply.finish}"


def _read(content: str) -> tuple[str, bool]:
    """Return what is said, and whether the stop token stood with it."""
    text = _THOUGHT.sub("", content)
    done = _STOP.search(text) is not None
    return " ".join(_STOP.sub(" ", text).split()), done


def _problem(text: str, done: bool, view: UserView) -> str:
    """Say why a message cannot be delivered; empty if it can."""
    if not text and not (done and view.messages):
        return "said nothing"
    if _LEAK.search(text):
        return "talked about its instructions"
    if _AGENT_LIKE.search(text):
        return "took the agent's role"
    invented = next(_invented(text, view), None)
    return f"invented {invented!r}" if invented else ""


def _invented(text: str, view: UserView) -> Iterator[str]:
    """Yield identifiers, addresses and long numbers that the user cannot know."""
    known = [str(part) for fact in view.facts for part in (fact.value, fact.spoken)]
    known += [*view.clauses, *(m.content or "" for m in view.messages), view.persona.name]
    bare = _squeeze("\n".join(known))
    for match in _IDENTIFIER.finditer(text):
        if _squeeze(match[0]) not in bare:
            yield match[0]


def _squeeze(text: str) -> str:
    """Leave out what people write differently each time: case, spaces, dashes."""
    return re.sub(r"[\s\-()]+", "", text.casefold())
