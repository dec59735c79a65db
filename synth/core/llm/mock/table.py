"""All faults, by name."""

from __future__ import annotations

from synth.core.llm.mock import fault_reply, fault_stream, fault_transport
from synth.core.llm.mock.faults import Fault

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (*fault_transport.FAULTS, *fault_reply.FAULTS, *fault_stream.FAULTS)
}
"""Name -> what is sent."""
