"""`catalog:PATH`, or a file of JSON Lines: lists of tools that others have collected.

    catalog:mcp-registry             docker/mcp-registry: servers/NAME/{server.yaml,tools.json}
    catalog:Toucan/mcp_servers       one JSON file a server, as Toucan keeps them
    tools.jsonl, tools.jsonl.gz      one tool a line, or one server with its `tools` a line

Nothing in them is run, fetched or believed. A row that cannot be read is rejected with a reason,
under the name of the file where it names no server.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import yaml

from synth.core.errors import BadInput, why_unreadable
from synth.core.mcp.wire import parse
from tool_registry.entries import mcp_entry
from tool_registry.normalize import Unreadable
from tool_registry.scrub import visible
from tool_registry.source import Listing, Target, Written

MAX_LINE = 8 << 20
"""Bytes of a row; as for a line of a server."""
MAX_BYTES = 1 << 30
"""Bytes of a file once unpacked, and of a folder's files together."""
MAX_FILES = 50_000
MAX_NAME = 200
_LINES = (".jsonl", ".jsonl.gz", ".ndjson")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Safe, and ten times as fast where libyaml is there."""
_NO_LIST = "the catalog has no list of its tools"


class CatalogFiles:
    """Servers and tools in the files of catalogs."""

    name = "catalog"
    example = "catalog:FOLDER"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.startswith("catalog:") or text.endswith(_LINES)

    def read(self, text: str) -> Iterable[Written]:
        """Return the servers of a file or folder, each once."""
        name = text.removeprefix("catalog:")
        if not name or "\0" in name:  # nobody means the folder they are in by saying nothing
            raise BadInput(f"no path: {text!r}", remedy=f"write {self.example}")
        path = Path(name).expanduser()
        shelf = _Shelf(path)
        for place, record in _records(path):
            shelf.add(place, record)
        if not shelf.servers:
            raise BadInput(
                "no tools in it",
                where=str(path),
                remedy="name JSON Lines, or a folder of JSON files",
            )
        return shelf.written()


# --- from files to records -------------------------------------------------------------------


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield place and content of every record; `Unreadable` for what is none."""
    try:
        if not path.is_dir():
            yield from _of_file(path, path.name, MAX_BYTES)
            return
        servers = path / "servers" if (path / "servers").is_dir() else path
        described = sorted(servers.glob("*/server.yaml"))[:MAX_FILES]
        if described:
            for file in described:
                yield file.parent.name, _docker(file)
            return
        left = MAX_BYTES
        for file in _files(path):
            left -= file.stat().st_size
            if left < 0:
                raise BadInput(f"more than {MAX_BYTES >> 20} MiB", where=str(path))
            yield from _of_file(file, str(file.relative_to(path)), left)
    except OSError as error:
        what, remedy = why_unreadable(error)
        raise BadInput(what, where=str(path), remedy=remedy) from error
    except (EOFError, zlib.error) as error:
        raise BadInput(f"not gzip: {error}", where=str(path)) from error


def _files(folder: Path) -> list[Path]:
    found = (
        file
        for file in folder.rglob("*")
        if file.name.endswith((".json", *_LINES)) and file.is_file() and not file.is_symlink()
    )
    return sorted(found)[:MAX_FILES]


def _of_file(path: Path, place: str, most: int) -> Iterator[tuple[str, Any]]:
    if not path.name.endswith(_LINES):
        document = _json(_bounded(path))
        rows = document if isinstance(document, list) else [document]
        for number, row in enumerate(rows, 1):
            yield (place if row is document else f"{place}:{number}"), row
        return
    with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as file:
        for number, line in enumerate(_lines(file, path, most), 1):
            if not isinstance(line, bytes):
                yield f"{place}:{number}", line
            elif line.strip():
                yield f"{place}:{number}", _json(line)


def _lines(file: IO[bytes] | gzip.GzipFile, path: Path, most: int) -> Iterator[bytes | Unreadable]:
    """Yield lines; one that is too long is passed over without being held."""
    total = 0
    while line := file.readline(MAX_LINE + 1):
        total += len(line)
        if len(line) > MAX_LINE:
            head = line[:200]
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE + 1)
                total += len(line)
                _within(total, most, path)
            detail = f"a row of more than {MAX_LINE >> 20} MiB"
            yield Unreadable("too_large", detail, head.decode(errors="replace"))
            continue
        _within(total, most, path)
        yield line


def _within(total: int, most: int, path: Path) -> None:
    if total > most:
        raise BadInput(f"more than {most >> 20} MiB of rows", where=str(path))


def _bounded(path: Path) -> bytes | Unreadable:
    with path.open("rb") as file:
        data = file.read(MAX_LINE + 1)
    if len(data) > MAX_LINE:
        return Unreadable("too_large", f"a file of more than {MAX_LINE >> 20} MiB", path.name)
    return data


def _json(data: bytes | Unreadable) -> Any:
    if isinstance(data, Unreadable):
        return data
    value = parse(data)
    if value is None and data.strip() != b"null":
        return Unreadable("not_json", "not JSON", data[:2000].decode(errors="replace"))
    return value


def _docker(file: Path) -> dict[str, Any] | Unreadable:
    described = _bounded(file)
    if isinstance(described, Unreadable):
        return described
    record: dict[str, Any] = {
        "server": file.parent.name,
        "server_yaml": described.decode(errors="replace"),
    }
    tools = file.with_name("tools.json")
    if tools.is_file():
        record["tools"] = _json(_bounded(tools))
    return record


# --- from records to servers -----------------------------------------------------------------


@dataclass(slots=True)
class _Server:
    listing: Listing = field(default_factory=Listing)
    missing: bool = True


class _Shelf:
    """The servers found so far: rows of one server need not stand together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.servers: dict[str, _Server] = {}

    def written(self) -> Iterator[Written]:
        """Yield what was found."""
        for name, server in self.servers.items():
            target = Target(server=name, source=SOURCE.name)
            yield Written(target, server.listing, _NO_LIST if server.missing else None)

    def add(self, place: str, record: Any) -> None:
        """Take a record in, whatever it is."""
        if isinstance(record, dict):
            metadata = record.get("metadata")
            if isinstance(metadata, dict) and "remote_server_response" in metadata:
                return self._toucan(metadata)
            if isinstance(record.get("server_yaml"), str):
                return self._container(record)
            if isinstance(record.get("tools"), (list, dict)):
                return self._server(record, place)
            if "tool" in record or {"name", "inputSchema"} <= record.keys():
                return self._tool(record, place)
            if "tools" in record:
                return self._server(record, place)
            record = Unreadable("unknown_shape", "neither a tool nor a server with tools", record)
        elif not isinstance(record, Unreadable):
            what = f"the row is a {type(record).__name__}"
            record = Unreadable("not_an_object", what, record)
        kept = Unreadable(record.reason, f"{place}: {record.detail}", record.raw)
        self._of(None, None).listing.tools.append(kept)
        return None

    def _of(self, origin: Any, name: Any) -> _Server:
        """Return the server called `name` in `origin`, the catalog's own name or our path."""
        where = _text(origin, None) or str(self.path)
        key = f"catalog:{where}#{name}" if name else f"catalog:{where}"
        server = self.servers.setdefault(key[: 2 * MAX_NAME], _Server())
        server.missing = server.missing and name is not None
        return server

    def _tool(self, record: dict[str, Any], place: str) -> None:
        name = _text(record.get("server"), None) or place.rpartition(":")[0]
        server = self._of(record.get("source_repo"), name)
        server.missing = False
        _facts(server.listing, record)
        server.listing.tools.append(mcp_entry(record))

    def _server(self, record: dict[str, Any], place: str) -> None:
        names = (record.get(key) for key in ("file", "package", "server", "server_name", "name"))
        name = next((found for n in names if (found := _text(n, None))), place)
        crawled = record.get("server_info_crawled")
        server = self._of(_origin(record), name)
        _facts(server.listing, record, crawled if isinstance(crawled, dict) else {})
        server.listing.server_info = {"name": _text(record.get("server_name"), name)}
        self._list(server, record["tools"])

    def _toucan(self, metadata: dict[str, Any]) -> None:
        crawled, answer = metadata.get("server_info_crawled"), metadata["remote_server_response"]
        crawled = crawled if isinstance(crawled, dict) else {}
        name = _text(crawled.get("author"), None) or _text(metadata.get("server_name"), "unnamed")
        server = self._of("TheAgentArk/Toucan", name)
        _facts(server.listing, metadata, crawled)
        server.listing.server_info = {"name": _text(metadata.get("server_name"), name)}
        self._list(server, answer.get("tools") if isinstance(answer, dict) else None)

    def _container(self, record: dict[str, Any]) -> None:
        about = _yaml(record["server_yaml"])
        name = _text(record.get("server"), None) or _text(about.get("name"), "unnamed")
        server = self._of("docker/mcp-registry", name)
        source, words = about.get("source"), about.get("about")
        source = source if isinstance(source, dict) else {}
        title = words.get("title") if isinstance(words, dict) else None
        server.listing.homepage = _text(source.get("project"), None)
        server.listing.package_version = _text(source.get("commit"), None)
        server.listing.server_info = {"name": _text(title, name)}
        self._list(server, record.get("tools"))

    def _list(self, server: _Server, tools: Any) -> None:
        if isinstance(tools, dict) and isinstance(tools.get("tools"), list):
            tools = tools["tools"]
        if isinstance(tools, Unreadable):
            tools = [tools]
        if not isinstance(tools, list) or not tools:
            return
        server.missing = False
        server.listing.tools += [
            tool if isinstance(tool, Unreadable) else mcp_entry(tool) for tool in tools
        ]


def _facts(listing: Listing, *records: dict[str, Any]) -> None:
    """Fill in what several catalogs call differently; what is known already stays."""
    for record in records:
        for name, keys in _FACTS.items():
            found = next((v for key in keys if (v := _text(record.get(key), None))), None)
            if getattr(listing, name) is None:
                setattr(listing, name, found)


_FACTS = {
    "licence": ("server_licence", "licence", "license"),
    "homepage": ("server_repo", "repository_url", "homepage"),
    "package_version": ("version", "source_commit"),
}


def _origin(record: dict[str, Any]) -> str | None:
    """Return the catalog's own name: `owner/name` of `owner/name@commit`."""
    source = _text(record.get("source"), None) or _text(record.get("source_repo"), None)
    return source.partition("@")[0] if source else None


def _text(value: Any, otherwise: str | None) -> Any:
    """Return a short text of strangers in one line, or something else where it is none."""
    if not isinstance(value, str) or not value.strip():
        return otherwise
    return " ".join(visible(value[: 20 * MAX_NAME], set()).split())[:MAX_NAME]


def _yaml(text: str) -> dict[str, Any]:
    try:
        value = yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


SOURCE = CatalogFiles()
