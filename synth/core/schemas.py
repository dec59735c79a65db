"""Validators of JSON Schema that reach nothing outside of the schema itself.

The library fetches what a schema refers to, `http:` and `file:` alike, while a validator is built
and even while a schema is only checked. Schemas come from strangers: everything that builds or
checks one goes through here, or hands `refuse` over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs


def refuse(address: str) -> Any:
    """Refuse to fetch what a schema refers to.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"nothing is fetched: {address}")


_CLOSED = jsonschema_rs.Registry([], retriever=refuse)
BROKEN = (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError)
"""What `validator` and `check` raise."""


def validator(
    schema: Mapping[str, Any],
    patterns: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions | None = None,
) -> jsonschema_rs.Validator:
    """Return a validator of the dialect that the schema names (default: 2020-12).

    Args:
        schema: where it refers to anything else than itself, no validator can be built.
        patterns: how regular expressions are matched, and within which bounds.

    Raises:
        jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError: see `BROKEN`.
    """
    return jsonschema_rs.validator_for(dict(schema), retriever=refuse, pattern_options=patterns)


def check(schema: Mapping[str, Any]) -> None:
    """Check a schema against its dialect's own.

    Raises:
        jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError: see `BROKEN`.
    """
    jsonschema_rs.meta.validate(dict(schema), registry=_CLOSED)
