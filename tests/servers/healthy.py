"""A little MCP server that behaves: two tools, answers at once. Standard library only."""

import json
import sys

TOOLS = [
    {
        "name": "add_note",
        "description": "Add a note to the notebook.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The note"}},
            "required": ["text"],
        },
    },
    {
        "name": "list_notes",
        "description": "List all notes.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True},
    },
]
notes = []


def call(name, arguments):
    if name == "add_note":
        notes.append(arguments["text"])
        return f"{len(notes)} notes"
    return json.dumps(notes)


def answer(message):
    if message["method"] == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "healthy", "version": "1.0"},
            "instructions": "Take notes.",
        }
    if message["method"] == "tools/list":
        return {"tools": TOOLS}
    if message["method"] == "tools/call":
        text = call(message["params"]["name"], message["params"]["arguments"])
        return {"content": [{"type": "text", "text": text}], "isError": False}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    result = answer(request)
    if result is None:
        reply["error"] = {"code": -32601, "message": "no such method"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
