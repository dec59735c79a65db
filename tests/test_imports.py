"""What starts fast stays fast: heavy packages load only where they are used."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "mcp", "openai", "transformers", "duckdb", "networkx", "matplotlib", "pyarrow")


@pytest.mark.parametrize(
    "statement",
    ["import synth.core.types", "import synth.core.protocols", "import synth.app, synth.__main__"],
)
def test_light_modules_load_no_heavy_package(statement):
    code = f"import sys; {statement}; print([n for n in {HEAVY!r} if n in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
