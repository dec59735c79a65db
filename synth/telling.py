"""Values and sentences as an agent writes them."""

from __future__ import annotations

from synth.core.speech import speech
from synth.core.types import OutputValue


def say_value(output: OutputValue, *, iso_dates: bool = False, language: str = "en") -> str:
    """Return a value as an agent writes it: `12.50 EUR`, `3 March 2026`, `yes`."""
    value, says = output.value, speech(language)
    if value is None:
        return says.unset
    if isinstance(value, bool) or output.type == "boolean":
        return says.truth(bool(value))
    if output.type == "money" and isinstance(value, int):
        return say_money(value, output.currency or "EUR", language=language)
    text = str(value)
    if output.type == "datetime" and not iso_dates:
        return says.moment(text, form="{date} at {time}" if language == "en" else "")
    return says.date(text) if output.type == "date" and not iso_dates else text


def say_money(minor: int, currency: str, *, language: str = "en") -> str:
    """Return an amount of minor units in words: `1250, "EUR"` -> `12.50 EUR`."""
    return speech(language).money(minor, currency)


def capital(text: str) -> str:
    """Return a text as it begins a sentence."""
    return text[:1].upper() + text[1:]


def ended(text: str) -> str:
    """Return a text with a full stop, if it has no end yet."""
    text = text.strip()
    return text if text.endswith((".", "!", "?", "。", "！", "？")) else f"{text}."
