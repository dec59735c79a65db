"""What `make` installs is what the lock says: every package, those that others ask for included."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCK = {
    canonicalize_name(name): version
    for name, version in re.findall(
        r"^([\w.-]+)==(\S+)$", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.M
    )
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def wanted():
    """Yield what this project asks for, in the extras that the Makefile names."""
    (extras,) = re.findall(r"-e '\.\[([\w,]+)\]'", (ROOT / "Makefile").read_text(encoding="utf-8"))
    for extra in extras.split(","):
        yield from map(Requirement, PROJECT["optional-dependencies"][extra])
    yield from map(Requirement, PROJECT["dependencies"])


def asked_for(requirement):
    """Yield what an installed package asks for, here and with these extras."""
    for text in metadata.requires(requirement.name) or ():
        needed = Requirement(text)
        extras = requirement.extras or {""}
        if needed.marker is None or any(needed.marker.evaluate({"extra": one}) for one in extras):
            yield needed


def test_whatever_make_installs_is_pinned_and_fits():
    waiting, seen, wrong = list(wanted()), set(), []
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, *sorted(requirement.extras)) in seen or name in {"torch", "toolloom"}:
            continue  # torch is installed before the rest, by its own index's version
        seen.add((name, *sorted(requirement.extras)))
        pinned = LOCK.get(name)
        if pinned is None or not requirement.specifier.contains(pinned, prereleases=True):
            wrong.append(f"{requirement} is pinned at {pinned}")
            continue
        waiting += asked_for(requirement)
    assert wrong == []
    assert len(seen) > 60
