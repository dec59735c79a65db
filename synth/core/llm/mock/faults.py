"""The table of faults: what real endpoints were reported to do to their clients, by name.

A fault is asked for by the model's name (`fault:http_503`, `fault:http_503@2` for the first two
attempts of a call) or drawn by the schedule. Sources: the issue trackers of clients and servers;
what each is, `about` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from synth.core.errors import UnknownName
from synth.core.llm.mock.ask import Ask
from synth.core.llm.mock.plan import Pace, Plan


@dataclass(slots=True)
class Exchange:
    """One request and the answer it would get; a fault may change the answer."""

    ask: Ask
    body: dict[str, Any]
    """The completion."""
    pace: Pace = field(default_factory=Pace)
    now: float = 0.0
    """Seconds since the server started."""
    windows: dict[str, float] = field(default_factory=dict)
    """Start of each throttled window, by model."""

    @property
    def message(self) -> dict[str, Any]:
        """Return the message of the answer."""
        message: dict[str, Any] = self.body["choices"][0]["message"]
        return message

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Return the tool calls of the answer."""
        return self.message.get("tool_calls") or []


Act: TypeAlias = Callable[[Exchange], Plan]


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of the table."""

    name: str
    group: str
    about: str
    act: Act
    call: bool = False
    """It befalls answers with a tool call only."""
    stream: bool = False
    """It befalls streams only."""
    drawn: bool = True
    """The schedule draws it unless told otherwise; what befalls others too is asked for by name."""

    def fits(self, exchange: Exchange) -> bool:
        """Say whether it can befall this answer."""
        return (not self.call or bool(exchange.calls)) and (not self.stream or exchange.ask.stream)


def selected(faults: Mapping[str, Fault], names: Iterable[str]) -> tuple[Fault, ...]:
    """Return the faults of these names or groups, in the table's order; none named: all drawn ones.

    Raises:
        UnknownName: neither a fault nor a group; close names are suggested.
    """
    wanted = set(names)
    groups = {fault.group for fault in faults.values()}
    for name in sorted(wanted - groups - set(faults)):
        raise UnknownName("fault", name, [*groups, *faults])
    if not wanted:
        return tuple(fault for fault in faults.values() if fault.drawn)
    return tuple(
        fault
        for fault in faults.values()
        if fault.name in wanted or (fault.group in wanted and fault.drawn)
    )
