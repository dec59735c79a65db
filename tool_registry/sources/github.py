"""`github:OWNER/REPO` and `github:topic:NAME`: repositories, through GitHub's REST API.

    github:modelcontextprotocol/servers
    github:topic:mcp-server?most=50     the most starred repositories of a topic

How a repository's servers are launched is told from its files (`launches`); their packages are then
listed like any other. What is found and not usable is kept as a server with the reason. A token in
GITHUB_TOKEN is sent to the API alone and written nowhere; without one GitHub answers sixty requests
an hour. A repository costs one, and one for each file that was not read before; asked again, what
did not change counts nothing with a token. GITHUB_API_URL names another GitHub.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2

from synth.core.errors import BadInput, ServerFailed
from synth.core.mcp.wire import parse
from tool_registry.launches import MAX_FILE, Launches, launches_in, unusable_targets, wanted
from tool_registry.pages import TIMEOUT_S, Pages, Refused, Spent
from tool_registry.source import Bench, Listing, Progress, Target

API = "https://api.github.com"
PAGE = 100
MOST = 100
"""Repositories of a topic, unless `most` says otherwise; GitHub shows a thousand at most."""
MAX_ANSWER = 16 << 20
"""Bytes of an answer in JSON; GitHub cuts the list of a repository's files at 7 MB."""
_JSON = "application/vnd.github+json"
_RAW = "application/vnd.github.raw+json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_TOPIC = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
_BLOB = re.compile(r"[0-9a-f]{40,64}")
_TOKEN = re.compile(r"[\x21-\x7e]{1,500}")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANSWERS = {
    401: "GitHub does not take the token in GITHUB_TOKEN",
    404: "there is no such repository, or it is private",
    409: "the repository is empty",
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
        """Ask GitHub as `find` does, and keep no answer."""
        return _find(text.removeprefix("github:"), None, lambda done, total, note: None)

    def find(self, text: str, pages: Path, progress: Progress) -> Sequence[Target]:
        """Ask GitHub, and return the servers of a repository, or of those of a topic.

        Raises:
            BadInput: no name of a repository or topic, or GitHub does not answer.
        """
        return _find(text.removeprefix("github:"), pages / "github", progress)

    async def fetch(self, target: Target, bench: Bench, listing: Listing) -> None:
        """Say why what a repository tells is not listed."""
        what = target.script or "no package"
        raise ServerFailed(what, where=target.server, outcome="unsupported")


def _find(what: str, folder: Path | None, progress: Progress) -> list[Target]:
    usable: dict[str, Target] = {}
    unusable: list[Target] = []
    topic, most = _asked(what)
    with httpx2.Client(timeout=TIMEOUT_S, follow_redirects=False) as client:
        pages = Pages(
            client, *_service(), folder=folder, told=lambda note: progress(0, 0, f"GitHub: {note}")
        )
        names = list(dict.fromkeys(_of_topic(pages, topic, most))) if topic else [what]
        for done, name in enumerate(names):
            progress(done, len(names), f"github:{name}")
            try:
                launches = launches_in(_files(pages, name))
            except Refused as error:
                launches = Launches((), {"": _why(error)})
            for target in launches.targets:
                usable.setdefault(target.server, target)
            unusable += unusable_targets(launches, f"github:{name}", SOURCE.name)
    return [*usable.values(), *unusable]


def _service() -> tuple[str, dict[str, str]]:
    """Return the address of the API, and what is sent with each request."""
    base = os.environ.get("GITHUB_API_URL", "").rstrip("/") or API
    parts = urlsplit(base)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise BadInput("GITHUB_API_URL is not https", remedy=f"unset it: {API} is asked then")
    headers = {"X-GitHub-Api-Version": "2022-11-28", "User-Agent": "toolloom"}
    if token := os.environ.get("GITHUB_TOKEN"):
        if not _TOKEN.fullmatch(token):
            raise BadInput("GITHUB_TOKEN is no token", remedy="unset it, or copy it once more")
        headers["Authorization"] = f"Bearer {token}"
    return base, headers


def _asked(what: str) -> tuple[str, int]:
    """Return the topic, empty for one repository, and how many repositories of it at most."""
    if not what.startswith("topic:"):
        if not _NAME.fullmatch(what):
            remedy = "write github:OWNER/REPO or github:topic:NAME"
            raise BadInput(f"no name of a repository: {what!r:.80}", remedy=remedy)
        return "", 1
    topic, _, query = what.removeprefix("topic:").partition("?")
    asked = dict(parse_qsl(query))
    most = asked.pop("most", str(MOST))
    digits = most.isascii() and most.isdigit() and len(most) < 5
    if not _TOPIC.fullmatch(topic) or asked or not digits or not 0 < int(most) <= 1000:
        remedy = "write github:topic:NAME?most=N, N up to 1000"
        raise BadInput(f"no name of a topic: {what!r:.80}", remedy=remedy)
    return topic, int(most)


def _of_topic(pages: Pages, topic: str, most: int) -> Iterator[str]:
    """Yield names of public repositories, the most starred first.

    Raises:
        BadInput: GitHub does not answer at all; after a first page, what came is all.
    """
    left, page, size = most, 1, min(PAGE, most)
    while left > 0:
        query = urlencode({"q": f"topic:{topic}", "sort": "stars", "per_page": size, "page": page})
        try:
            answer = _value(pages, f"search/repositories?{query}")
        except Refused as error:
            if page > 1:
                return
            raise BadInput(_why(error), where=f"github:topic:{topic}") from error
        items = answer.get("items") if isinstance(answer, dict) else None
        entries = [item for item in items if isinstance(item, dict)] if items else []
        for entry in entries[:left]:
            name = entry.get("full_name")
            if isinstance(name, str) and _NAME.fullmatch(name) and not entry.get("private"):
                yield name
        if not isinstance(items, list) or len(items) < size:
            return
        left, page = left - len(items), page + 1


def _files(pages: Pages, name: str) -> dict[str, bytes]:
    """Return those of a repository's files that tell how it is launched; links are left out.

    Raises:
        Refused: the repository is not shown; of one file that is not, the others count.
    """
    answer = _value(pages, f"repos/{name}/git/trees/HEAD?recursive=1")
    entries = answer.get("tree") if isinstance(answer, dict) else None
    blobs = {
        entry["path"]: entry["sha"]
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict)
        and entry.get("mode") in ("100644", "100755")
        and isinstance(entry.get("path"), str)
        and isinstance(entry.get("sha"), str)
        and _BLOB.fullmatch(entry["sha"])
    }
    found = {}
    for path in wanted(blobs):
        address = f"repos/{name}/git/blobs/{blobs[path]}"
        try:
            found[path] = pages.get(address, _RAW, most=MAX_FILE, fixed=True)
        except Spent:
            raise
        except Refused:
            continue
    return found


def _value(pages: Pages, path: str) -> Any:
    value = parse(pages.get(path, _JSON, most=MAX_ANSWER))
    if value is None:
        raise Refused("answers with no JSON")
    return value


def _why(error: Refused) -> str:
    why = _ANSWERS.get(error.status, f"GitHub {error}")
    return f"{why}; set GITHUB_TOKEN for more" if isinstance(error, Spent) else why


SOURCE = GitHub()
