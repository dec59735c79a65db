"""`github:OWNER/REPO` and `github:topic:NAME`: repositories, through GitHub's REST API.

    github:modelcontextprotocol/servers
    github:topic:mcp-server?most=50     the most starred repositories of a topic

How a repository's server is launched is told from its files (`launches`); its packages are then
listed like any other. A repository that tells nothing is kept as a server with the reason. A token
in GITHUB_TOKEN is sent to the API alone and written nowhere; without one GitHub answers sixty
requests an hour, and a repository costs two to eight. GITHUB_API_URL names another GitHub.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import httpx2

from synth.core.errors import BadInput, ServerFailed
from synth.core.mcp.wire import parse
from tool_registry.launches import MAX_FILE, READMES, WANTED, launches_in
from tool_registry.source import Bench, Listing, Target

API = "https://api.github.com"
PAGE = 100
MOST = 100
"""Repositories of a topic, unless `most` says otherwise; GitHub shows a thousand at most."""
TIMEOUT_S = 20.0
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})/[A-Za-z0-9._-]{1,100}")
_TOPIC = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANSWERS = {
    401: "GitHub does not take the token",
    404: "there is no such repository, or it is private",
    451: "it is withheld for legal reasons",
}


class GitHub:
    """Servers whose repositories are on GitHub."""

    name = "github"
    example = "github:OWNER/REPO"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.startswith("github:")

    def targets(self, text: str) -> Sequence[Target]:
        """Ask GitHub, and return the servers of a repository, or of those of a topic.

        Raises:
            BadInput: no name of a repository or topic, or GitHub does not answer.
        """
        what = text.removeprefix("github:")
        found: dict[str, Target] = {}
        with httpx2.Client(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as client:
            api = _Api(client)
            for name in _repositories(api, what):
                for target in _of(api, name):
                    found.setdefault(target.server, target)
        return list(found.values())

    async def fetch(self, target: Target, bench: Bench, listing: Listing) -> None:
        """Say why a repository gave no package."""
        what = target.script or "no package"
        raise ServerFailed(what, where=target.server, outcome="unsupported")


class _Refused(Exception):
    """GitHub gives no answer to this."""


class _Spent(_Refused):
    """GitHub gives no more answers for a while."""


class _Api:
    """What of the API is used."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client
        self._base = os.environ.get("GITHUB_API_URL", API).rstrip("/")
        parts = urlsplit(self._base)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise BadInput("GITHUB_API_URL is not https", remedy=f"unset it: {API} is asked then")
        self._headers = {"X-GitHub-Api-Version": "2022-11-28", "User-Agent": "toolloom"}
        if token := os.environ.get("GITHUB_TOKEN"):
            self._headers["Authorization"] = f"Bearer {token}"

    def value(self, path: str) -> Any:
        """Return a JSON answer; raises as `data`."""
        try:
            return parse(self.data(path, "application/vnd.github+json"))
        except ValueError as error:
            raise _Refused("GitHub answers with no JSON") from error

    def data(self, path: str, form: str, hops: int = 2) -> bytes:
        """Return an answer, cut at `MAX_FILE`.

        Raises:
            _Spent: the rate limit is reached; says until when.
            _Refused: any other status than 200, or no answer.
        """
        address = f"{self._base}/{path.lstrip('/')}"
        body = bytearray()
        try:
            with self._client.stream(
                "GET", address, headers={**self._headers, "Accept": form}
            ) as response:
                status, headers = response.status_code, response.headers
                if status == 200:
                    for chunk in response.iter_bytes():
                        body += chunk
                        if len(body) >= MAX_FILE:
                            break
                    return bytes(body[:MAX_FILE])
        except httpx2.HTTPError as error:
            raise _Refused(f"GitHub does not answer: {type(error).__name__}") from error
        moved = headers.get("Location", "")
        if status in (301, 302, 307, 308) and moved.startswith(f"{self._base}/") and hops:
            return self.data(moved.removeprefix(self._base), form, hops - 1)
        if status == 429 or (status == 403 and headers.get("X-RateLimit-Remaining") == "0"):
            raise _Spent(f"GitHub answers no more {_until(headers)}; set GITHUB_TOKEN for more")
        raise _Refused(_ANSWERS.get(status, f"GitHub answers with status {status}"))


def _until(headers: httpx2.Headers) -> str:
    reset = headers.get("X-RateLimit-Reset", "")
    if reset.isdigit():
        return f"before {datetime.fromtimestamp(int(reset[:12]), UTC):%H:%M} UTC"
    return "for a while"


def _repositories(api: _Api, what: str) -> Iterator[str]:
    """Yield names of repositories."""
    if not what.startswith("topic:"):
        if not _NAME.fullmatch(what):
            remedy = "write github:OWNER/REPO or github:topic:NAME"
            raise BadInput(f"no name of a repository: {what!r:.80}", remedy=remedy)
        yield what
        return
    topic, _, query = what.removeprefix("topic:").partition("?")
    asked = dict(parse_qsl(query))
    most = asked.pop("most", str(MOST))
    if not _TOPIC.fullmatch(topic) or asked or not most.isdigit() or not 0 < int(most) <= 1000:
        remedy = "write github:topic:NAME?most=N, N up to 1000"
        raise BadInput(f"no name of a topic: {what!r:.80}", remedy=remedy)
    left, page, size = int(most), 1, min(PAGE, int(most))
    while left > 0:
        query = urlencode({"q": f"topic:{topic}", "sort": "stars", "per_page": size, "page": page})
        try:
            answer = api.value(f"search/repositories?{query}")
        except _Refused as error:
            if page > 1:
                return  # what came before is told of; each of it says whether it was refused
            raise BadInput(str(error), where=f"github:{what}") from error
        items = answer.get("items") if isinstance(answer, dict) else None
        names = [item.get("full_name") for item in items or () if isinstance(item, dict)]
        if not names:
            return
        yield from (n for n in names[:left] if isinstance(n, str) and _NAME.fullmatch(n))
        left, page = left - len(names), page + 1


def _of(api: _Api, name: str) -> list[Target]:
    """Return the servers of a repository, or one that says why there are none."""
    try:
        found = launches_in(_files(api, name))
        why = "no file of it tells how its server is launched"
    except _Refused as error:
        found, why = [], str(error)
    return found or [Target(server=f"github:{name}", source=SOURCE.name, script=why)]


def _files(api: _Api, name: str) -> dict[str, bytes]:
    """Return those of a repository's files that tell how it is launched; one README."""
    listed = api.value(f"repos/{name}/contents/")
    entries = listed if isinstance(listed, list) else []
    there = {e.get("path") for e in entries if isinstance(e, dict) and e.get("type") == "file"}
    folders = {e.get("path") for e in entries if isinstance(e, dict) and e.get("type") == "dir"}
    readmes = [path for path in READMES if path in there][:1]
    wanted = [path for path in WANTED if path in there and path not in READMES] + readmes
    wanted += [path for path in WANTED if "/" in path and path.split("/")[0] in folders]
    found = {}
    for path in wanted:
        try:
            address = f"repos/{name}/contents/{quote(path)}"
            found[path] = api.data(address, "application/vnd.github.raw+json")
        except _Spent:
            raise
        except _Refused:
            continue
    return found


SOURCE = GitHub()
