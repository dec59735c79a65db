"""Characters that show nothing, or make a terminal do something, as patterns.

Whoever reads a text of strangers must see what is in it: escape sequences move the cursor and
rename the window, marks of writing direction reorder what is shown, line separators fake lines.
"""

from __future__ import annotations

CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f"
"""C0 and C1 without tab, line feed and carriage return; for use inside of `[]`."""
INVISIBLE = (
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f"
)
"""Of no width, or changing the direction of writing; for use inside of `[]`."""
SEPARATORS = "\u2028\u2029"
"""Line and paragraph separators; for use inside of `[]`."""
SURROGATES = "\ud800-\udfff"
"""Halves of pairs, which no encoding can write; for use inside of `[]`."""
