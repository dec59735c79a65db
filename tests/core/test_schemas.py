"""A schema of strangers makes nobody fetch anything, whoever builds or checks it."""

import ast
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jsonschema_rs
import pytest

from simulators.live import environment as live
from synth.core import schemas
from synth.core.types import Provenance
from synth.judge import rules
from tool_registry.normalize import normalize

ROOT = Path(__file__).parent.parent.parent
_2019 = "https://json-schema.org/draft/2019-09/schema"


@pytest.fixture(scope="module")
def server():
    """Serve the schema that takes only strings at every address, and note who asks."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            httpd.asked.append(self.path)
            self.send_response(200)
            self.send_header("content-length", "17")
            self.end_headers()
            self.wfile.write(b'{"type":"string"}')

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.asked = []
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def foreign(server, tmp_path):
    """Return schemas that lead elsewhere: to a server, to a file of this machine."""
    server.asked.clear()
    file = tmp_path / "secret.json"
    file.write_text('{"type": "string"}', encoding="utf-8")
    http = f"http://127.0.0.1:{server.server_port}"
    return [
        {"type": "object", **more}
        for away in (f"{http}/a", file.as_uri())
        for more in (
            {"$ref": away},
            {"$schema": away},
            {"properties": {"x": {"$ref": f"{away}#/type"}}},
            {"properties": {"x": {"$dynamicRef": f"{away}#x"}}},
            {"$schema": _2019, "properties": {"x": {"$recursiveRef": away}}},
            {"$id": away, "properties": {"x": {"$ref": "b"}}},
            {"$defs": {"d": {"$schema": away, "type": "string"}}},
            {"allOf": [{"$schema": away}]},
            {"contentSchema": {"$ref": away}},
            {"dependencies": {"x": {"$schema": away}}},
        )
    ]


def test_the_library_alone_would_fetch(server, foreign):
    validator = jsonschema_rs.validator_for(foreign[0])
    assert server.asked == ["/a"]
    assert not validator.is_valid({})


def _quietly(function):
    def call(schema):
        try:
            return function(schema)
        except schemas.BROKEN:
            return None

    return call


def _normalized(schema):
    tool = {"name": "t", "inputSchema": schema, "outputSchema": schema}
    return normalize(tool, Provenance(source="s", server="s"))


@pytest.mark.parametrize(
    "use",
    [
        _quietly(schemas.validator),
        _quietly(schemas.check),
        _normalized,
        live._validator,
        rules._compile,
    ],
    ids=["validator", "check", "registry", "live", "judge"],
)
def test_nothing_is_fetched_wherever_a_schema_is_used(server, foreign, use):
    for schema in foreign:
        use(schema)
    assert server.asked == []


def test_a_file_of_this_machine_decides_nothing(foreign):
    to_a_file = foreign[len(foreign) // 2]
    assert to_a_file["$ref"].startswith("file:///")
    with pytest.raises(schemas.BROKEN, match="nothing is fetched"):
        schemas.validator(to_a_file)


def test_a_tool_that_refers_elsewhere_is_refused_with_the_address(server, foreign):
    found = _normalized(foreign[0])
    assert found.reason == "remote_ref"
    assert f"http://127.0.0.1:{server.server_port}/a" in found.detail


def test_what_refers_to_itself_and_known_dialects_are_fine():
    tree = {"$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}
    schemas.check(tree)
    assert schemas.validator(tree).is_valid({"next": {"next": {}}})
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}
    schemas.check(old)
    assert not schemas.validator(old).is_valid(3)


def test_every_validator_is_built_with_a_refusal():
    open_ended = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in ("synth", "tool_registry", "simulators", "train")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _may_fetch(node)
    ]
    assert open_ended == []


def _may_fetch(call):
    called = ast.unparse(call.func)
    if not called.startswith("jsonschema_rs.") or called.endswith(("Options", "Registry")):
        return called.endswith("jsonschema_rs.Registry") and not _has(call, "retriever")
    return not (_has(call, "retriever") or _has(call, "registry"))


def _has(call, name):
    return any(keyword.arg == name for keyword in call.keywords)
