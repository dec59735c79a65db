"""What the training commands refuse before torch is loaded, which takes seconds."""

from __future__ import annotations

from pathlib import Path

from synth.core.errors import BadInput


def check_application(name: str) -> None:
    """Refuse what is no application.

    Args:
        name: of an application, or its file.

    Raises:
        UnknownName: no such application; close names are suggested.
        BadApplication: the file is wrong.
    """
    from simulators.sql.load import load_application

    load_application(name)


def check_dataset(path: Path) -> None:
    """Refuse a dataset that is not there or has no rows.

    Raises:
        BadInput: says which.
    """
    try:
        with path.open("rb") as file:
            if any(line.strip() for line in file):
                return
    except OSError as error:
        what = f"the dataset cannot be read: {error.strerror}"
        raise BadInput(what, where=str(path), remedy="toolloom export writes one") from error
    raise BadInput(
        "the dataset has no rows",
        where=str(path),
        remedy="generate more episodes, then export again",
    )
