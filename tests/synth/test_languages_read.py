"""What is heard, told and claimed in French and Chinese, as their writers write it."""

import random
from decimal import Decimal

import pytest

from simulators.users.asked import asked
from simulators.users.wrong import other_values, wrong_fact
from synth.core import voices
from synth.core.hearing import hearing, languages
from synth.core.invented import Known, amounts
from synth.core.types import Fact, OutputValue
from synth.judge.claims import claim
from synth.judge.evidence import Evidence
from synth.judge.values import at_token, scan, tells
from synth.judge.wording import stated
from synth.judge.yesno import yes_or_no

MONEY = OutputValue(label="x", type="money", value=125050, currency="EUR")
DAY = OutputValue(label="x", type="date", value="2026-03-02")
NUMBER = OutputValue(label="x", type="integer", value=1500)
TIME = OutputValue(label="x", type="text", value="14:30")


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("Le solde est de 1\u202f250,50\u00a0€.", MONEY),
        ("Le solde est de 1 250,50 euros.", MONEY),
        ("Le solde est de 1250,50\u202f€ exactement.", MONEY),
        ("余额是1250.50欧元。", MONEY),
        ("余额为1,250.50 欧元，请查收", MONEY),
        ("余额：€1250.50。", MONEY),
        ("Il arrive le 2 mars 2026.", DAY),
        ("Le 02/03/2026, c'est faux ; le 2.3.2026 est juste.", DAY),
        ("到期日是2026年3月2日。", DAY),
        ("3月2号到期", DAY),
        ("日期：2026-03-02，谢谢", DAY),
        ("一共1500个积分", NUMBER),
        ("Vous avez 1\u202f500 points.", NUMBER),
        ("Rendez-vous à 14\u00a0h\u00a030.", TIME),
        ("Rendez-vous à 14h30.", TIME),
        ("预约在下午2点30分。", TIME),
        ("预约在14点30分", TIME),
        ("预约在下午2:30", TIME),
        ("预约是2026年3月2日14:30。", TIME),
    ],
)
def test_a_value_is_read_as_it_is_written_there(text, output):
    found = [item for item in scan(text) if tells(item, output)]
    assert len(found) == 1
    assert stated(text, found[0].start, found[0].end)


@pytest.mark.parametrize(
    "text",
    [
        "首期100欧元",
        "尾号1706的卡",
        "Le 1er mars",
        "我叫3月",
        "2月30点",
        "il y a 12 heures",
        "24小时",
    ],
)
def test_what_is_another_value_is_not_taken_for_it(text):
    outputs = (MONEY, DAY, NUMBER, TIME)
    assert not [item for item in scan(text) for output in outputs if tells(item, output)]


def test_sums_in_chinese_are_of_their_currency():
    (euro, yen) = scan("付了50欧元和3000日元")
    assert (euro.value, yen.value) == (("EUR", Decimal(5000)), ("JPY", Decimal(3000)))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("收款人是Anna。", True),
        ("收款人是Anna Lee。", True),
        ("账户DE12-Anna", False),
        ("Annabelle", False),
    ],
)
def test_chinese_characters_beside_a_token_are_no_part_of_it(text, whole):
    assert bool(at_token(text, "Anna")) is whole


def affirmed(text):
    start, end = text.index("{"), text.index("}") - 1
    return stated(text.replace("{", "").replace("}", ""), start, end)


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("Votre rendez-vous est le {2 mars}.", True),
        ("Pas avant le {2 mars}.", True),
        ("Le cours «\u00a0Ne jamais dire jamais\u00a0» est le {2 mars}.", True),
        ("Ce n'est pas le {2 mars}.", False),
        ("C'est peut-être le {2 mars}.", False),
        ("Si c'est le {2 mars}, dites-le.", False),
        ("Le {2 mars} ou le 3 mars.", False),
        ("Est-ce le {2 mars}\u00a0?", False),
        ("您的预约是{3月2日}。", True),
        ("最早不早于{3月2日}。", True),
        ("“不要离开”这本书{3月2日}到期。", True),
        ("不是{3月2日}。", False),
        ("可能是在{3月2日}。", True),
        ("大约{3月2日}。", False),
        ("如果是{3月2日}，请告诉我。", False),
        ("是{3月2日}还是3月3日", False),
        ("是{3月2日}吗？", False),
    ],
)
def test_affirmed_and_denied_are_told_apart(text, is_so):
    assert affirmed(text) is is_so


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("C'est fait\u00a0: bloquer votre carte.", True),
        ("Votre demande a été exécutée.", True),
        ("Je m'en suis occupé.", True),
        ("J’ai annulé votre rendez-vous.", True),
        ("Votre carte n'a pas été bloquée.", False),
        ("Si vous confirmez, je le fais.", False),
        ("Dois-je annuler votre rendez-vous\u00a0?", False),
        ("J'ai transmis votre demande.", False),
        ("已完成：冻结您的卡。", True),
        ("我已经为您取消了预约。", True),
        ("您的申请已顺利办理完毕。", True),
        ("还没有取消您的预约。", False),
        ("要取消预约吗？", False),
        ("如果您同意，我就为您办理。", False),
        ("我已把您的请求转给同事。", False),
    ],
)
def test_a_claim_of_a_deed_is_seen(text, claims):
    assert (claim(text) is not None) is claims


@pytest.mark.parametrize(
    ("label", "text", "value"),
    [
        ("paiement sans contact", "Paiement sans contact : oui.", True),
        ("paiement sans contact", "Le paiement sans contact est : non.", False),
        ("近接支付", "近接支付：是。", True),
        ("近接支付", "近接支付是否开通：否。", False),
        ("接收新患者", "接收新患者：不。", False),
    ],
)
def test_an_answer_of_yes_or_no_is_read(label, text, value):
    output = OutputValue(label=label, type="boolean", value=value)
    other = output.model_copy(update={"value": not value})
    evidence = Evidence.of_plan("", "", ["{}"]).saying(text)
    assert yes_or_no(output, evidence) is None
    assert yes_or_no(other, evidence) is not None


# --- users -----------------------------------------------------------------------------------


def fact(name, label, value):
    return Fact(name=name, label=label, value=value, spoken=value)


CHINESE = (
    fact("user.email", "邮箱", "ann@ex.org"),
    fact("payee.name", "收款人的姓名", "Anna Lee"),
    fact("payee.iban", "收款人的IBAN", "DE89370400440532013000"),
    fact("user.name", "姓名", "王伟"),
    fact("amount", "转账金额", "50.00欧元"),
)
FRENCH = (
    fact("user.email", "l'adresse e-mail", "ann@ex.org"),
    fact("payee.name", "le nom du bénéficiaire", "Anna Lee"),
    fact("payee.iban", "l'IBAN du bénéficiaire", "DE89370400440532013000"),
    fact("amount", "le montant du virement", "1\u202f250,00\u00a0€"),
)


@pytest.mark.parametrize(
    ("language", "question", "names"),
    [
        ("zh", "请问您的邮箱是什么？", ["user.email"]),
        ("zh", "能告诉我收款人的IBAN吗？", ["payee.iban"]),
        ("zh", "请提供收款人的姓名和转账金额。", ["amount", "payee.name"]),
        ("zh", "您的姓名？", ["user.name"]),
        ("zh", "今天天气怎么样？", []),
        ("fr", "Quelle est votre adresse e-mail ?", ["user.email"]),
        ("fr", "Pourriez-vous m’indiquer l’IBAN du bénéficiaire ?", ["payee.iban"]),
        ("fr", "Il me faut le montant du virement et votre e-mail.", ["amount", "user.email"]),
        ("fr", "Quel temps fait-il ?", []),
    ],
)
def test_a_user_hears_which_facts_are_asked_for(language, question, names):
    hears = hearing(language)
    facts = CHINESE if language == "zh" else FRENCH
    found = asked(hears.questions(question), facts, hears)
    assert sorted(f.name for f in found) == names


@pytest.mark.parametrize(
    ("language", "heard", "wrong"),
    [
        ("zh", "收款人的IBAN是DE00，可以办理吗？", "payee.iban"),
        ("zh", "收款人的IBAN是DE89370400440532013000，对吗？", None),
        ("zh", "邮箱为：bob@ex.org，对吗？", "user.email"),
        ("zh", "转账金额是50.00欧元，对吗？", None),
        ("fr", "L'adresse e-mail est bob@ex.org, est-ce exact ?", "user.email"),
        ("fr", "Le montant du virement\u00a0: 1250,00\u00a0€. D'accord ?", None),
        ("fr", "Le montant du virement\u00a0: 1350,00\u00a0€. D'accord ?", "amount"),
    ],
)
def test_a_user_objects_to_another_value_than_its_own(language, heard, wrong):
    facts = CHINESE if language == "zh" else FRENCH
    found = wrong_fact(heard, facts, (), hearing(language))
    assert (found.name if found else None) == wrong


@pytest.mark.parametrize(
    ("language", "heard", "own", "other"),
    [
        ("zh", "预订住5晚，对吗？", ["预订住3晚"], True),
        ("zh", "2026年3月2日入住，住3晚，对吗？", ["2026年4月5日入住，住3晚"], False),
        ("zh", "附言“房租”，对吗？", ["附言“押金”"], True),
        ("fr", "Pour 5 nuits, d'accord ?", ["pour 3 nuits"], True),
        ("fr", "Le 2 mars 2026 pour 3 nuits ?", ["le 5 avril 2026 pour 3 nuits"], False),
        ("fr", "Avec le motif « loyer » ?", ["avec le motif «\u00a0loyer\u00a0»"], False),
    ],
)
def test_a_user_tells_its_own_amounts_and_quotes_from_others(language, heard, own, other):
    assert other_values(heard, own, hearing(language)) is other


@pytest.mark.parametrize(
    "sentence",
    [
        "Je suis client depuis 2019, j'ai 3 enfants et un lecteur MP3.",
        "J'ai appelé il y a 10 jours, vers 9h30, au 2e étage, 24h/24.",
        "Le 1er étage, la 2e porte, 1\u202f000 livres, 100 pages.",
        "我从2019年开始就是你们的客户，住在3楼，等了30分钟。",
        "我有3个孩子，去过24小时便利店，大概1000人。",
        "Mon ordinateur a 16Go de mémoire, mon fils a 12 ans.",
    ],
)
def test_ordinary_sentences_hold_nothing_invented(sentence):
    assert list(Known(["Ann Lee"]).invented(sentence)) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Mon numéro est K-4711.", "Envoyez 120\u00a0€.", "Le 29 mai, s'il vous plaît.",
        "Écrivez à bob@ex.org.", "我的单号是K-4711。", "请付120欧元。", "5月29日可以吗？",
        "发到bob@ex.org吧", "电话是15774745740。",
    ],
)  # fmt: skip
def test_what_nobody_told_is_found(sentence):
    assert list(Known(["Ann Lee", "28 mai 2026", "2026年5月28日"]).invented(sentence))


@pytest.mark.parametrize(
    ("language", "text", "units"),
    [
        ("fr", "le 1er juin 2026 à 10:30 pour 2 personnes", {"personne": ["2"]}),
        ("fr", "de 50 euros en 3 mensualités", {"euro": ["50"], "mensualité": ["3"]}),
        ("zh", "2026年3月2日14:30，2位客人住3晚", {"位": ["2"], "晚": ["3"]}),
        ("zh", "尾号1706的卡分4期", {"期": ["4"]}),
    ],
)
def test_only_what_is_counted_is_a_unit(language, text, units):
    assert amounts(text, hearing(language)) == units


# --- voices ----------------------------------------------------------------------------------


def fields(voice, symbol):
    """Return the fields that a symbol's alternatives use, other symbols followed."""
    found = set()
    for parts in voice._grammar[symbol]:
        for kind, value in (piece for part in parts for piece in part):
            if kind == "field":
                found.add(value)
            elif kind == "symbol":
                found |= fields(voice, value)
    return found


@pytest.mark.parametrize("language", [name for name in languages() if name != "en"])
def test_every_voice_fills_in_only_what_is_given(language):
    for names, open_ in ((voices.names, voices.voice), (voices.styles, voices.style)):
        english = [open_(name) for name in names()]
        assert names(language)
        for name in names(language):
            voice = open_(name, language)
            for symbol in voices.USER_SYMBOLS | voices.AGENT_SYMBOLS:
                if symbol in voice.symbols:
                    given = set().union(
                        *(fields(v, symbol) for v in english if symbol in v.symbols)
                    )
                    label = {"label", "Label", "my", "My", "spoken"}
                    given |= label if given & label else set()
                    whole = {"clause": "Clause", "clauses": "Clauses", "what": "What"}
                    given |= {capital for plain, capital in whole.items() if plain in given}
                    assert fields(voice, symbol) <= given, (name, symbol)


@pytest.mark.parametrize("language", languages())
def test_a_yes_is_no_objection_and_a_no_is_one_in_every_voice(language):

    hears = hearing(language)
    for name in voices.names(language):
        voice = voices.voice(name, language)
        for seed in range(12):
            assert not hears.has("declines", voice.say("yes", random.Random(seed))), name
            assert hears.has("declines", voice.say("no", random.Random(seed))), name


@pytest.mark.parametrize("language", languages())
def test_every_style_asks_confirms_and_refuses_so_that_a_user_understands(language):

    hears = hearing(language)
    for name in voices.styles(language):
        style = voices.style(name, language)
        for seed in range(12):
            rng = random.Random(seed)
            given = {"clause": "X", "clauses": "X", "Clauses": "X", "Clause": "X", "action": "X"}
            for symbol in ("confirm", "confirm_next"):
                text = style.say(symbol, rng, **given)
                assert any(hears.has("consent", q) for q in hears.questions(text)), text
            for symbol in ("ask_one", "ask_many"):
                text = style.say(symbol, rng, what="X", What="X")
                assert hears.questions(text), text
                assert not any(hears.has("consent", q) for q in hears.questions(text)), text
            for symbol in ("refused", "unserved", "failed"):
                text = style.say(symbol, rng, rule="X", reason="X", **given)
                assert hears.has("refusal", text), text
                assert not hears.questions(text), text
            text = style.say("done", rng, **given)
            assert claim(text), text
            assert not hears.questions(text), text
