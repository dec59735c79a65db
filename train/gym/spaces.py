"""Spaces of messages for Gymnasium, with neither shape nor bounds: its checker allows that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from synth.core.seeds import rng


def actions(gym: Any) -> Any:
    """Return the space of assistant messages; a sample is a question, which ends no episode.

    Args:
        gym: the package.
    """
    return _space(gym, _is_action, _any_action)


def observations(gym: Any) -> Any:
    """Return the space of observations.

    Args:
        gym: the package.
    """
    return _space(gym, _is_observation, _any_observation)


def _is_action(value: Any) -> bool:
    return isinstance(value, (str, Mapping))


def _is_observation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"messages", "tools"}
        and all(isinstance(one, dict) for one in (*value["messages"], *value["tools"]))
    )


def _any_action(number: int) -> str:
    """Return a question: it never ends an episode."""
    words = ["name", "date", "time", "place", "number", "reason"]
    return f"What is the {rng('action', number).choice(words)}?"


def _any_observation(number: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": _any_action(number)}], "tools": []}


def _space(gym: Any, contains: Callable[[Any], bool], sample: Callable[[int], Any]) -> Any:
    """Return a space that contains what `contains` says, and draws by a number."""

    def drawn(self: Any, mask: Any = None, probability: Any = None) -> Any:
        return sample(int(self.np_random.integers(2**31)))

    members = {
        "contains": lambda self, x: contains(x),
        "sample": drawn,
        "is_np_flattenable": property(lambda self: False),
        "__eq__": lambda self, other: type(self) is type(other),
        "__hash__": lambda self: hash(type(self)),
    }
    return type("Messages", (gym.Space,), members)()
