"""Values that nobody told their author, however those that were told are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.core.hearing import hearing
from synth.core.invented import Known, amounts

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
        ("DE11 3704 0044 0532 0130 00", "DE11 3704 0044 0532 0130 00"),
    ],
)
def test_what_nobody_told_is_found(text, found):
    assert found in list(KNOWN.invented(text))


def test_full_width_and_foreign_digits_are_digits():
    wide = str.maketrans("0123456789L-@.", "０１２３４５６７８９Ｌ－＠．")
    for text in ("我的贷款是L-77", "1175.00欧元", "+49 157 747 45 74"):
        assert list(KNOWN.invented(text.translate(wide))) == []
    assert "13812345678" in list(KNOWN.invented("电话是13812345678".translate(wide)))
    assert list(KNOWN.invented("رقم ١٢٣٤٥")) == ["12345"]


@pytest.mark.parametrize(
    "text",
    ["我住12号楼3单元501室", "公元2026年", "18h-20h, 18h00-20h00", "das 2008er-Modell",
     "eine 500-Gramm-Packung"],
)  # fmt: skip
def test_parts_of_other_words_are_no_sums_and_compounds_no_codes(text):
    assert list(Known([]).invented(text)) == []


@given(st.text(alphabet="0123456789.,-/' €AbMay@+", max_size=60))
def test_whoever_only_repeats_invents_nothing(text):
    assert list(Known([text]).invented(text)) == []


ORDINARY = """
I bought an MP3 player, a PS5 and a USB3 cable for my B2B shop.
We flew 1st class on a B52 themed tour in the 1990s and the mid-2020s.
I have been your customer since 2019, well before COVID-19.
My invoice is for the academic year 2025/2026 or 2025-26.
Print it on A4, 100-page booklets, 300dpi, 1920x1080px.
The 10-day trip, the 3-bedroom flat on the 2nd floor, a 4x4, and H2O.
It uses 6500W, or 10000 watts, at 230V and 50Hz; 2500 songs fit on 128GB.
You may 5 times a day, and she may 2 times.
I moved here a year ago 3 people helped me.
I will march 20 kilometres; set 5 alarms.
I am here from 9.30-11.00 or 09:00-10:30, 24/7.
It was rated 4.5. Version 3.5. I liked it.
It took 1h30 or 1h30m. I ran 42.195km in 3h.
More than 1 000 000 people and 15 000 cars.
Vitamin B12, the E10 fuel, and Windows11.
Ich warte seit 2021, um 9 Uhr, 10-jährige Tochter, 3. Stock, 100er Karton.
Das kostet nichts, Punkt 4.5. Danke.
La talla 38, desde 2018, 24 horas, el 2º piso, 5ª planta.
Llevo 10 años y 1500 seguidores.
""".strip().splitlines()


@pytest.mark.parametrize("sentence", ORDINARY)
def test_ordinary_sentences_hold_nothing_invented(sentence):
    assert list(Known(["Ann Lee"]).invented(sentence)) == []


IDENTIFIERS = """
K-4711
k-4711
BK-20931
E0030
LZ-23359
HELM-117
AB123
X7Q9Z
INV-2026-0042
ord_99182
7f3a9c1e
4711AB
a.lee+shop@mail.example
DE89 3704 0044 0532 0130 00
DE89370400440532013000
GB29 NWBK 6016 1331 9268 19
0157 7474574
+1 (555) 010-9999
20394
48213377
12/05/2026
6 July
July 6th
59.90 EUR
$20
12,50 €
""".strip().splitlines()


@pytest.mark.parametrize("value", IDENTIFIERS)
@pytest.mark.parametrize("sentence", ["It is {}.", "Please use {} for this, thanks", "{}"])
def test_identifiers_from_nowhere_are_found(value, sentence):
    assert list(Known(["Ann Lee", "28 May 2026"]).invented(sentence.format(value)))


@pytest.mark.parametrize(
    ("language", "text", "units"),
    [
        ("en", "on 1 October 2026 at 15:45 for 90 minutes", {"minute": ["90"]}),
        (
            "en",
            "card 4711 with 5 days and 10 days, 2.50 EUR",
            {"day": ["5", "10"], "eur": ["2.50"]},
        ),
        ("en", "from 2026 on, order 4711 is late", {}),
        ("de", "am 3. Mai 2026 um 10:30 Uhr für 2 Personen", {"personen": ["2"]}),
        ("de", "vom Konto 4711 auf 50 EUR", {"eur": ["50"]}),
        ("es", "el 3 de mayo de 2026 a las 10:30 para 2 personas", {"persona": ["2"]}),
    ],
)
def test_only_what_is_counted_is_a_unit(language, text, units):
    assert amounts(text, hearing(language)) == units
