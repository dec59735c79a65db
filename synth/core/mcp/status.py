"""What the status of an HTTP response means for whoever wants a list of tools."""

from __future__ import annotations

import email.utils
import time

from synth.core.errors import ServerFailed
from synth.core.mcp.wire import parse

BUSY = (429, 502, 503, 504)
"""Worth another try after a while."""
PATIENCE_S = 1.0
"""Before another try where the server names no time."""
_MEANING = {
    204: ("invalid", "has nothing to say"),
    303: ("invalid", "sends us elsewhere for a page"),
    400: ("invalid", "refuses the request as wrong"),
    401: ("denied", "wants credentials"),
    402: ("denied", "wants to be paid"),
    403: ("denied", "forbids it"),
    404: ("missing", "there is nothing at this address, or the session has ended"),
    405: ("missing", "takes no messages at this address"),
    406: ("invalid", "offers neither JSON nor events"),
    407: ("denied", "is behind a proxy that wants credentials"),
    410: ("missing", "is gone for good"),
    421: ("denied", "does not serve this host name"),
    429: ("busy", "has had too many requests"),
    503: ("busy", "is not available now"),
}
_REMEDY = {
    401: 'write it into an mcp.json with "url" and "headers"',
    429: "try later",
    503: "try later",
}


def failure_of(status: int, said: bytes, where: str, *, html: bool) -> ServerFailed:
    """Return the failure that a status means.

    Args:
        status: other than a success with an answer.
        said: the start of the body; the message of a JSON-RPC error in it is quoted.
        where: name of the server.
        html: whether the body is a web page.
    """
    known = _MEANING.get(status)
    if known is None:
        known = ("broken", "fails") if status >= 500 else ("invalid", "answers with a status")
    outcome, words = known
    told = _message(said)
    detail = f": {told}" if told else (", with a web page" if html else "")
    what = f"{words} (HTTP {status}){detail}"
    return ServerFailed(what, where=where, remedy=_REMEDY.get(status, ""), outcome=outcome)


def seconds_to_wait(text: str) -> float:
    """Return what a `Retry-After` asks for, as seconds or a date; a default where it says none."""
    if text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        at = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return PATIENCE_S
    return max(0.0, at - time.time())


def _message(said: bytes) -> str:
    """Return the message of a JSON-RPC error, at most 200 characters."""
    value = parse(said) if said[:1] == b"{" else None
    error = value.get("error") if isinstance(value, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message[:200] if isinstance(message, str) else ""
