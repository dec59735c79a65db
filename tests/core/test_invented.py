"""Values that nobody told their author, however those that were told are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.core.invented import Known

pytestmark = pytest.mark.claim("d08")

KNOWN = Known([
    "ann@ex.org", "+49 157 747 45 74", "1175.00 EUR", "28 May 2026", "L-77",
    "DE89 3704 0044 0532 0130 00", "2026-03-03", "extend it by 5 days", "15,000", "Ann Lee",
])  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "It is ann@ex.org.",
        "Call +491577474574 or 0049 157 7474574".replace("0049 ", "+49 "),
        "I want to send 1,175 EUR, I mean 1.175,00 € or $1175.",
        "On 28.5.2026, the 28th of May, May 28, 5/28/2026, 2026-05-28 or 28/05/2026.",
        "3 March it is.",
        "My loan L77, that is l-77.",
        "IBAN DE89370400440532013000",
        "15000 or 15'000 of them",
        "Give me 2 books for 14 days at 3pm or 10am, the 2nd one, 5kg, 30min, in 24h.",
        "Room 0.12 costs nothing.",
        "It is +49 157 747 45 74. May I go on, or is it 5. May I ask again?",
        "",
    ],
)
def test_what_was_told_may_be_said_in_any_form(text):
    assert list(KNOWN.invented(text)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("My number is K-4711.", "K-4711"),
        ("Write to bob@ex.org.", "bob@ex.org"),
        ("My PIN is 20394.", "20394"),
        ("Call me: +49 30 123 45 67.", "+49 30 123 45 67"),
        ("Or (030) 555-1234?", "030) 555-1234"),
        ("Please send 120 EUR.", "120 EUR"),
        ("Please send €1,275.00 now.", "€1,275.00"),
        ("It costs 12 euros.", "12 euros"),
        ("On 29 May 2026.", "29 May"),
        ("On June 28th.", "June 28th"),
        ("On 2026-05-29.", "2026-05-29"),
        ("Am 29.5.2026", "29.5.2026"),
        ("DE11 3704 0044 0532 0130 00", "DE11"),
    ],
)
def test_what_nobody_told_is_found(text, found):
    assert found in list(KNOWN.invented(text))


@given(st.text(alphabet="0123456789.,-/' €AbMay@+", max_size=60))
def test_whoever_only_repeats_invents_nothing(text):
    assert list(Known([text]).invented(text)) == []
