import pytest

from synth.core.config import Config, changes, load_config
from synth.core.errors import BadConfig
from synth.core.types import TaskKind


def test_defaults_need_no_file_and_their_mix_adds_up_to_one():
    config = load_config()
    assert config == Config()
    assert sum(config.generate.mix.values()) == pytest.approx(1)
    assert set(config.generate.mix) == set(TaskKind)


def test_a_file_is_read_and_overridden_by_set(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("seed = 3\n[generate]\nagents = 5\n", encoding="utf-8")
    config = load_config(path, ["generate.agents=9", "train.model=tiny"])
    assert (config.seed, config.generate.agents, config.train.model) == (3, 9, "tiny")


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("generate.agnets=3", "did you mean agents"),
        ("models.agent.base_ulr=x", "did you mean base_url"),
        ("generate.agents=-1", "generate.agents"),
        ("seed.x.y=1", "seed: "),
        ("seed=99999999999999999999", "seed: Input should be less than or equal to"),
        ("nothing", "not KEY=VALUE"),
        ("generate.errors.rate=2", "less than or equal to 1"),
        ("generate.mix={lookup=-1}", "generate.mix.lookup: Input should be greater than"),
        ("generate.mix={lookup=inf}", "generate.mix.lookup: Input should be a finite number"),
        ("generate.mix={lookup=nan}", "generate.mix.lookup: Input should be"),
        ("generate.mix={lookup=0}", "generate.mix: no kind of task has a weight above 0"),
        ("generate.mix={}", "generate.mix: no kind of task has a weight above 0"),
        ("generate.tools=[0, 4]", "generate.tools.0: Input should be greater than 0"),
        ("generate.tools=[5, 4]", "generate.tools: the smallest toolset is larger than"),
        ("generate.limits.seconds=inf", "generate.limits.seconds: Input should be a finite"),
        ("models.agent={model='m', timeout_s=0}", "models.agent.timeout_s: Input should be"),
        ("models.agent={model='m', timeout_s=inf}", "models.agent.timeout_s: Input should be"),
        ("models.agent={model='m', max_tokens=0}", "models.agent.max_tokens: Input should be"),
        ("models.agent={model='m', top_p=0}", "models.agent.top_p: Input should be"),
        ("models.agent={model='m', temperature=-1}", "models.agent.temperature: Input should"),
        ("models.agent.temperature=1", "models.agent.model: Field required"),
        (
            "models.agent={model='m', base_url='localhost:1'}",
            "models.agent.base_url: String should",
        ),
        (
            "models.agent={model='m', base_url='http://me:secret@host/v1'}",
            "models.agent.base_url: no user or password in an address",
        ),
        ("models.default.base_ulr=x", "did you mean base_url"),
        ("models.agnet.model=m", "did you mean agent"),
        ("models.judge={model='m', tool_calls='hermez'}", "models.judge.tool_calls: Input should"),
        ("models.judge={model='m', price_in=-1}", "models.judge.price_in: Input should be"),
        ("models.judge={model='m', concurrency=0}", "models.judge.concurrency: Input should be"),
        ("budget.mony=3", "did you mean money"),
        ("budget.requests=0", "budget.requests: Input should be"),
    ],
)
def test_a_wrong_override_is_one_clear_line(override, says):
    with pytest.raises(BadConfig) as caught:
        load_config(None, [override])
    assert says in str(caught.value)
    assert "--set" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_who_set_the_wrong_value_is_blamed(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[generate]\nagents = -1\n", encoding="utf-8")
    with pytest.raises(BadConfig, match=r"c\.toml: generate\.agents"):
        load_config(path, ["seed=3"])
    wrong = ["generate.agents=5", "generate.agents=-2", "generate.states=3"]
    with pytest.raises(BadConfig, match=r"^--set generate\.agents=-2: generate\.agents"):
        load_config(path, wrong)
    assert load_config(path, ["generate.agents=5"]).generate.agents == 5


def test_broken_toml_names_the_file(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("seed = = 3", encoding="utf-8")
    with pytest.raises(BadConfig, match=r"c\.toml"):
        load_config(path)


def test_the_fingerprint_follows_content_and_ignores_the_trainer():
    base = load_config()
    assert load_config(None, ["train.model=tiny"]).fingerprint() == base.fingerprint()
    assert load_config(None, ["seed=1"]).fingerprint() != base.fingerprint()


@pytest.mark.parametrize(
    "override",
    [
        "models.agent.base_url='http://localhost:1/v1'",
        "models.agent.key_env=OTHER_KEY",
        "models.agent.timeout_s=5",
        "models.agent.attempt_s=5",
        "models.agent.stream=true",
        "models.agent.concurrency=3",
        "models.user.price_in=2.5",
        "models.user.price_out=2.5",
        "models.user.finish_reason=optional",
        "budget.money=3.5",
        "generate.limits.seconds=9",
        "train.model=tiny",
    ],
)
def test_where_a_model_is_reached_and_how_long_is_waited_decides_nothing(override):
    base = load_config(None, ["models.agent.model=m", "models.user.model=u"])
    other = load_config(None, ["models.agent.model=m", "models.user.model=u", override])
    assert other.fingerprint() == base.fingerprint()
    assert other.differences(base.model_dump(mode="json")) == []


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("models.agent.temperature=0.9", "models.agent.temperature: 0.6 -> 0.9"),
        ("generate.limits.turns=9", "generate.limits.turns: 24 -> 9"),
        ("models.user.model=x", "models.user: None -> "),
        ("models.agent.tool_calls=hermes", "models.agent.tool_calls: 'native' -> 'hermes'"),
        ("models.agent.reasoning=send", "models.agent.reasoning: 'omit' -> 'send'"),
    ],
)
def test_what_decides_changes_the_fingerprint_and_is_named(override, says):
    base = load_config(None, ["models.agent.model=m"])
    other = load_config(None, ["models.agent.model=m", override])
    assert other.fingerprint() != base.fingerprint()
    (line,) = other.differences(base.model_dump(mode="json"))
    assert line.startswith(says)


def test_the_fingerprint_covers_the_content_of_the_applications():
    config = load_config()
    assert (
        len({config.fingerprint(), config.fingerprint({"a": "1"}), config.fingerprint({"a": "2"})})
        == 3
    )


def test_changes_are_listed_by_dotted_key():
    a, b = load_config().model_dump(), load_config(None, ["generate.agents=7"]).model_dump()
    assert changes(a, b) == ["generate.agents: 30 -> 7"]
