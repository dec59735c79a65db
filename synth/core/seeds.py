"""Seeds by hashing a path, so that adding one draw never shifts another.

`hash()` is salted per process and therefore never used.
"""

from __future__ import annotations

import hashlib
import random


def seed(*path: str | int) -> int:
    """Return a 63-bit seed for a path such as `("tasks", "library", 7)`.

    Types count: `1` and `"1"` give different seeds.
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in path)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def rng(*path: str | int) -> random.Random:
    """Return a generator seeded by `path`."""
    return random.Random(seed(*path))
