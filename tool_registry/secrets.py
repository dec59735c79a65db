"""Credentials: recognised, so that none reaches a server or a file, and replaced by dummies.

Listing tools needs no rights. Of 48 servers none checked its credentials before it listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

DUMMY = "dummy-not-a-secret"
DUMMY_URL = "http://127.0.0.1:9"
MAX_VARIABLES = 12

_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CONNECTION_?STRING|"
    r"BEARER|COOKIE|(^|[_-])(KEY|AUTH|PAT|DSN|PWD)([_-]|$)",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"(sk|pk|rk)[-_][A-Za-z0-9]|gh[pousr]_|github_pat_|xox[abprs]-|AKIA|glpat-|hf_|npm_|pypi-|eyJ|"
    r"sbp_|Bearer\s|-----BEGIN"
)
_IN_URL = re.compile(r"(://)[^/\s@]+@")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_CONFIGURES = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASS|PWD|URL|URI|HOST|USER|USERNAME|EMAIL|ID|DSN|STRING|ENDPOINT|"
    r"DOMAIN|REGION|PROJECT|WORKSPACE|ACCOUNT|ORG|INSTANCE|DATABASE|DIR|PATH)$"
)


def is_secret(name: str, value: str) -> bool:
    """Say whether a variable or option looks like a credential, by its name or its value."""
    return bool(_NAME.search(name) or _VALUE.match(value) or _IN_URL.search(value))


def dummy(name: str) -> str:
    """Return an obviously false value of about the right form for the variable `name`."""
    if re.search("UR[LI]|ENDPOINT|DSN", name, re.IGNORECASE):
        return DUMMY_URL
    if "EMAIL" in name.upper():
        return "nobody@example.invalid"
    return DUMMY


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with credentials replaced by dummies."""
    return {name: dummy(name) if is_secret(name, value) else value for name, value in env.items()}


def without_secret_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a command line with credentials replaced: `--token X`, `--token=X`, `sk-…`."""
    out: list[str] = []
    for argument in arguments:
        option, separator, value = argument.partition("=")
        if separator and option.startswith("-") and is_secret(option, value):
            out.append(f"{option}={DUMMY}")
        elif out and out[-1].startswith("-") and "=" not in out[-1] and _NAME.search(out[-1]):
            out.append(argument if argument.startswith("-") else DUMMY)
        else:
            out.append(redacted(argument))
    return tuple(out)


def redacted(text: str) -> str:
    """Return an argument as it may be written down."""
    if _VALUE.match(text):
        return DUMMY
    return _IN_URL.sub(r"\1", text)


def variables_in(message: str) -> list[str]:
    """Return the environment variables that an error message seems to ask for."""
    names = {name for name in _VARIABLE.findall(message) if _CONFIGURES.search(name)}
    return sorted(name for name in names if len(name) < 64)[:MAX_VARIABLES]
