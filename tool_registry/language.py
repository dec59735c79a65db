"""The language of a description, by its script and its commonest words; no model, no guess.

Where neither tells, it is `und` (undetermined, BCP 47): names and fragments have no language.
"""

from __future__ import annotations

import re

LOOKED_AT = 600
"""Characters of a text that are looked at."""
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),  # before zh: Japanese has Chinese characters too
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("el", re.compile("[\u0370-\u03ff]")),
)
_WORD = re.compile(r"[^\W\d_]+")
_COMMON = {
    "en": "the of and to in is for with from this that by or an be are it as on at you your when "
    "all if not can use used get list create search tool returns return given which using user",
    "es": "el la los las de del y en un una para por con que es se al como su este esta lista "
    "obtener buscar usuario",
    "fr": "le la les des du et en un une pour par avec que est au aux dans sur ce cette ou liste "
    "rechercher utilisateur",
    "de": "der die das den dem des und ist für mit von ein eine einen im zu auf aus oder nicht "
    "wird sie alle nach über",
    "pt": "o os as do da dos das e em um uma para por com que ao como se não lista buscar usuário",
    "it": "il lo gli di del della e in un una per con che al come si non elenco cerca utente dei",
}
_BY_WORD: dict[str, list[str]] = {}
for _language, _words in _COMMON.items():
    for _word in _words.split():
        _BY_WORD.setdefault(_word, []).append(_language)


def language_of(text: str) -> str:
    """Return the language of `text` as its code of two letters, or `und`."""
    text = text[:LOOKED_AT]
    letters = sum(map(str.isalpha, text))
    if not text.isascii():
        for language, script in _SCRIPTS:
            # A sign of these scripts is worth some Latin letters: technical terms stay Latin.
            if 0 < letters <= len(script.findall(text)) * 4:
                return language
    counts = dict.fromkeys(_COMMON, 0)
    for word in _WORD.findall(text.lower()):
        for language in _BY_WORD.get(word, ()):
            counts[language] += 1
    best = max(counts, key=counts.__getitem__)
    if counts[best] and list(counts.values()).count(counts[best]) == 1:
        return best
    return "en" if counts[best] and counts["en"] == counts[best] else "und"
