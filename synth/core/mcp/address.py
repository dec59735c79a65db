"""Where a server on the network is, and which addresses a connection to it may lead to.

An address may come from a stranger, and a name or a redirect may lead anywhere. So each socket is
made by a `Door`, which looks at the numeric address that is about to be connected to: what a name
meant a moment ago does not matter (SSRF and DNS rebinding, MCP Security Best Practices).
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

from synth.core.errors import BadInput, ServerFailed

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""What a user writes for the own machine."""
MAX_ADDRESS = 2000
_Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_ODD = re.compile(r"[\x00-\x20\x7f<>\"{}|\\^`]")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server behind an address, and what is sent to it."""

    url: str = field(repr=False)
    """May hold a credential, so it is shown nowhere."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent to the origin of `url` and to no other."""
    name: str = ""
    """For messages; default the host's name."""
    older: bool = False
    """Speak HTTP+SSE (2024-11-05) at once instead of trying streamable HTTP first."""

    @property
    def label(self) -> str:
        """Return what to call the server in messages."""
        return self.name or urlsplit(self.url).hostname or "server"


def split_address(text: str) -> SplitResult:
    """Return the parts of an address that a server may have.

    Raises:
        BadInput: it is none, names a user, or is neither https nor on this machine.
    """
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if not host or parts.scheme not in _PORTS or len(text) > MAX_ADDRESS or _ODD.search(text):
        raise BadInput("not an address of a server", remedy="write https://HOST/mcp")
    if "@" in parts.netloc:
        raise BadInput("an address must not hold a user or password", where=host)
    if parts.scheme == "http" and host not in LOOPBACK:
        raise BadInput("not over https", where=host, remedy="http is for this machine only")
    return parts


def joined(url: str, other: str) -> str:
    """Return where `other` leads from `url`; nowhere (an empty text) where it makes no sense."""
    try:
        return urljoin(url, other)
    except ValueError:
        return ""


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)


class Door:
    """Decides about each connection and each redirect on the way to one server."""

    def __init__(self, address: ServerAddress) -> None:
        self.refused = ""
        """Why the last connection was not made, or empty."""
        self._address = address
        self._own = origin(address.url)

    def socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make the socket for a resolved address.

        Args:
            info: family, type, protocol, name and socket address, as `getaddrinfo` returns them.

        Raises:
            OSError: nothing of ours may connect there.
        """
        family, kind, protocol, _, (host, port, *_) = info
        why = self._private(ipaddress.ip_address(host.partition("%")[0]), port)
        if why:
            self.refused = f"leads to {host}, {why}"
            raise PermissionError(self.refused)
        return socket.socket(family, kind, protocol)

    def _private(self, ip: _Ip, port: int) -> str:
        _, host, own_port = self._own
        if host in LOOPBACK and ip.is_loopback and port == own_port:
            return ""
        inner = _embedded(ip)
        if inner.is_loopback or inner.is_unspecified:
            return "which is this machine"
        if inner.is_link_local:
            return "a link-local address"
        return "" if inner.is_global and not inner.is_multicast else "an address of no public host"

    def redirected(self, url: str, location: str) -> str:
        """Return where a redirect of `url` leads.

        Raises:
            ServerFailed: it drops the encryption, leaves this machine for it, or makes no sense.
        """
        target = joined(url, location)
        if url.startswith("https:") and target.startswith("http:"):
            raise self._unsafe("redirects from https to http")
        try:
            parts = split_address(target)
        except BadInput as error:
            raise self._unsafe(f"redirects to what is refused: {error}") from None
        if parts.hostname in LOOPBACK and origin(target) != self._own:
            raise self._unsafe("redirects to this machine")
        return target

    def same_origin(self, url: str) -> bool:
        """Say whether an address is of the origin that credentials are for."""
        return origin(url) == self._own

    def _unsafe(self, what: str) -> ServerFailed:
        return ServerFailed(what, where=self._address.label, outcome="unsafe")


def _embedded(ip: _Ip) -> _Ip:
    """Return the IPv4 address that an IPv6 address leads to, or the address."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo or (0, ip))[1]
