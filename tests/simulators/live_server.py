"""A small MCP file server of the standard library, well-behaved or hostile on request.

    python live_server.py FOLDER [--cache]

Its file tools carry the names and parameters of the npm package that the file world is made for.
`misbehave` does one of the things in `TRICKS`.
"""

import fnmatch
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
CACHE = {} if "--cache" in sys.argv else None
TEXT = {"type": "string"}


def inside(path):
    full = Path(os.path.normpath(ROOT / path))
    if full != ROOT and ROOT not in full.parents:
        raise ValueError(f"Access denied - path outside allowed directories: {full} not in {ROOT}")
    return full


def read_text_file(path):
    if CACHE is None:
        return inside(path).read_text(encoding="utf-8")
    return CACHE.setdefault(path, inside(path).read_text(encoding="utf-8"))


def read_multiple_files(paths):
    return "\n---\n".join(f"{path}:\n{read_text_file(path)}\n" for path in paths)


def write_file(path, content):
    inside(path).write_text(content, encoding="utf-8")
    return f"Successfully wrote to {path}"


def edit_file(path, edits):
    text = inside(path).read_text(encoding="utf-8")
    for edit in edits:
        if edit["oldText"] not in text:
            raise ValueError(f"Could not find exact match for edit:\n{edit['oldText']}")
        text = text.replace(edit["oldText"], edit["newText"], 1)
    inside(path).write_text(text, encoding="utf-8")
    return f"Edited {inside(path)}"


def create_directory(path):
    inside(path).mkdir(parents=True, exist_ok=True)
    return f"Successfully created directory {path}"


def list_directory(path):
    entries = sorted(inside(path).iterdir())
    return "\n".join(f"[{'DIR' if e.is_dir() else 'FILE'}] {e.name}" for e in entries)


def directory_tree(path):
    def tree(folder):
        return [
            {"name": entry.name, "type": "directory", "children": tree(entry)}
            if entry.is_dir() and not entry.is_symlink()
            else {"name": entry.name, "type": "file"}
            for entry in sorted(folder.iterdir())
        ]

    return json.dumps(tree(inside(path)), indent=2)


def move_file(source, destination):
    if inside(destination).exists():
        raise ValueError(f"Destination already exists: {inside(destination)}")
    inside(source).rename(inside(destination))
    return f"Successfully moved {source} to {destination}"


def search_files(path, pattern):
    found = [p for p in sorted(inside(path).rglob("*")) if fnmatch.fnmatch(p.name, pattern[3:])]
    return "\n".join(map(str, found)) or "No matches found"


def get_file_info(path):
    stamp = time.strftime("%a %b %d %Y %H:%M:%S GMT+0000 (Coordinated Universal Time)")
    return f"size: {inside(path).stat().st_size}\naccessed: {stamp}"


def misbehave(how):
    result = TRICKS[how]()
    return result if isinstance(result, (str, dict)) else "done"


def outside():
    """Try to write around the folder; say where it seemed to work."""
    written = []
    for path in (ROOT.parent / "escaped", Path("/etc/toolloom-escaped")):
        try:
            path.write_text("x", encoding="utf-8")
            written.append(str(path))
        except OSError:
            pass
    return "\n".join(written) or "nowhere"


def flood():
    while True:
        sys.stdout.write("noise " * 10_000 + "\n")


def half():
    (ROOT / "half").write_text("x", encoding="utf-8")
    raise ValueError("gave up half way")


def many():
    for number in range(2_500):
        (ROOT / f"f{number}").touch()


def crowd():
    for number in range(1 << 30):
        folder = ROOT / f"d{number >> 12}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}").write_bytes(b"x")


def pile():
    for number in range(1 << 30):
        (ROOT / f"f{number}").write_bytes(bytes(1 << 20))


def pile_elsewhere():
    for number in range(1 << 30):
        (Path(os.environ["TMPDIR"]) / f"f{number}").write_bytes(bytes(1 << 20))


def delve():
    os.chdir(ROOT)
    while True:
        os.mkdir("d")
        os.chdir("d")


def big():
    with (ROOT / "big").open("wb") as file:
        while True:
            file.write(bytes(1 << 20))
            file.flush()


def daemon():
    subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", str(ROOT)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


TRICKS = {
    "outside": outside,
    "die": lambda: os._exit(3),
    "die_talking": lambda: (sys.stderr.write(f"lost {ROOT}\n"), sys.stderr.flush(), os._exit(3)),
    "hang": lambda: time.sleep(600),
    "noise": lambda: print("starting up\n{half a", flush=True),
    "flood": flood,
    "link": lambda: (ROOT / "passwords").symlink_to("/etc/passwd"),
    "link_up": lambda: (ROOT / "up").symlink_to("notes/../../.."),
    "link_inside": lambda: (ROOT / "again").symlink_to(ROOT / "README.txt"),
    "fifo": lambda: os.mkfifo(ROOT / "pipe"),
    "binary": lambda: (ROOT / "image").write_bytes(b"\x89PNG\x00\xff"),
    "half": half,
    "many": many,
    "big": big,
    "crowd": crowd,
    "pile": pile,
    "pile_elsewhere": pile_elsewhere,
    "delve": delve,
    "executable": lambda: (ROOT / "README.txt").chmod(0o755),
    "daemon": daemon,
    "locked": lambda: (ROOT / "notes").chmod(0),
    "surrogate": lambda: "\ud800",
    "internal": lambda: {"code": -32603, "message": f"boom in {ROOT}"},
    "params": lambda: {"code": -32602, "message": "how is wrong"},
}

TOOLS = {
    read_text_file: {"path": TEXT},
    read_multiple_files: {"paths": {"type": "array", "items": TEXT}},
    write_file: {"path": TEXT, "content": TEXT},
    edit_file: {"path": TEXT, "edits": {"type": "array", "items": {"type": "object"}}},
    create_directory: {"path": TEXT},
    list_directory: {"path": TEXT},
    directory_tree: {"path": TEXT},
    move_file: {"source": TEXT, "destination": TEXT},
    search_files: {"path": TEXT, "pattern": TEXT},
    get_file_info: {"path": TEXT},
    misbehave: {"how": TEXT},
}


def schema(properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


def listing():
    return [
        {
            "name": tool.__name__,
            "description": tool.__name__.replace("_", " "),
            "inputSchema": schema(properties),
        }
        for tool, properties in TOOLS.items()
    ]


def called(params):
    tool = {tool.__name__: tool for tool in TOOLS}[params["name"]]
    try:
        result = tool(**params["arguments"])
    except (OSError, ValueError) as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return result if isinstance(result, dict) else {"content": [{"type": "text", "text": result}]}


def answer(method, params):
    if method == "initialize":
        info = {"name": "files", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    return {"tools": listing()} if method == "tools/list" else called(params)


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params", {}))
            kind = "error" if "code" in result else "result"
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], kind: result}), flush=True)


if __name__ == "__main__":
    main()
