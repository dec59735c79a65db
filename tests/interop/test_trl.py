"""Tasks for TRL's `environment_factory`: tools as methods, the user as a tool, our verdict."""

import asyncio
import inspect
import json
import typing

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import applications, load_application
from synth.core.errors import BadInput, ServerFailed
from synth.core.types import Provenance, ToolSpec
from train.gym.for_trl import TALK, TrlTasks, _method
from train.gym.hints import dressed, python_type
from train.gym.stepped import Stepped


def said_by_reference(case, seed, reference):
    """Return the reference agent's messages; what is said on the way is said by the tool."""

    async def played():
        episode, agent = Stepped(case, seed=seed), reference(case, seed)
        await episode.begin()
        while episode.outcome is None:
            await episode.step(await agent.turn(episode))
        return [m for m in episode.messages if m.role == "assistant"]

    messages = asyncio.run(played())
    for message in messages[:-1]:
        calls = [(call.name, call.value) for call in message.tool_calls]
        yield [*calls, (TALK, {"message": message.content})] if message.content else calls
    yield messages[-1].content


def roll_out(tasks, number, script):
    """Do with an environment what the trainer's loop does; return its reward."""
    row = tasks.rows[number]
    environment = tasks.environments[row["environment"]]()
    first = environment.reset(**{k: v for k, v in row.items() if k != "environment"})
    assert first
    completion = []
    for said in script:
        if isinstance(said, str):
            completion.append({"role": "assistant", "content": said})
            continue
        completion.append(
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function"}]}
        )
        for name, arguments in said:
            tool = getattr(environment, name, None)
            result = tool(**arguments) if tool else json.dumps({"error": f"Tool {name} not found."})
            completion.append({"role": "tool", "name": name, "content": result})
    (reward,) = tasks.reward(prompts=[], completions=[completion], environments=[environment])
    return reward, completion


def test_the_reference_agent_earns_its_reward_by_tools_alone(cases, reference):
    tasks = TrlTasks(cases)
    for number, case in enumerate(cases):
        script = list(said_by_reference(case, number, reference))
        assert roll_out(tasks, number, script)[0] == 1.0


@pytest.mark.parametrize(
    "script",
    [
        ["Goodbye."],
        [],
        [""],
        [[("no_such_tool", {})]],
        [[("no_such_tool", {})], "It is done."],
        [[(TALK, {"message": "What is your name?"})]],  # and not a word more
    ],
)
def test_who_does_nothing_gets_nothing(cases, script):
    reward, completion = roll_out(TrlTasks(cases), 0, script)
    assert reward == 0.0
    if script and script[0] == [("no_such_tool", {})]:
        assert "not found" in completion[1]["content"]


def test_the_tools_of_an_environment_are_those_of_its_agent_and_one_to_talk(cases):
    tasks = TrlTasks(cases)
    for row, case in zip(tasks.rows, cases, strict=True):
        environment = tasks.environments[row["environment"]]()
        public = {
            name
            for name, _ in inspect.getmembers(type(environment), inspect.isfunction)
            if not name.startswith("_")
        }
        assert public == {*case.agent.tools, TALK, "reset"}
        assert row["prompt"][0] == {"role": "system", "content": case.agent.system}


def test_a_tool_has_signature_hints_and_docstring(cases):
    spec = cases[0].world.tools()[0]
    method = _method(spec)
    names = list(spec.parameters["properties"])
    assert list(inspect.signature(method).parameters) == ["self", *names]
    assert set(typing.get_type_hints(method)) == {*names, "return"}
    assert all(f"    {name}: " in method.__doc__ for name in names)


def test_errors_of_the_environment_reach_the_model_as_text(cases):
    tasks = TrlTasks(cases)
    environment = tasks.environments[cases[0].agent.key]()
    environment.reset(case=0)
    tool = cases[0].agent.tools[0]
    said = json.loads(getattr(environment, tool)(**{"self": 1, "no such": None}))
    assert said["error"] == "invalid_arguments"
    assert environment.talk_to_user(words="misnamed")  # is no message: the episode is over
    assert json.loads(environment.talk_to_user(message="Hello?"))["error"] == "over"
    assert json.loads(getattr(environment, tool)())["error"] == "over"
    assert tasks.reward(completions=[[]], environments=[environment]) == [0.0]


def test_an_environment_is_used_again_and_has_no_reward_before(cases):
    tasks = TrlTasks(cases)
    environment = tasks.environments[cases[0].agent.key]()
    assert tasks.reward(completions=[[]], environments=[environment]) == [None]
    assert json.loads(environment.talk_to_user(message="Hello?"))["error"] == "over"
    first = environment.reset(case=0)
    environment.talk_to_user(message="What is your name?")
    assert environment.reset(case=0) == first


def test_an_episode_without_a_verdict_is_none_and_not_zero(cases):
    def absent(case, seed):
        class Absent:
            who = "absent"

            async def turn(self, view):
                raise ServerFailed("is gone", where="the user", outcome="exited")

        return Absent()

    tasks = TrlTasks(cases, user=absent)
    environment = tasks.environments[cases[0].agent.key]()
    assert json.loads(environment.reset(case=0))["error"] == "over"
    completion = [{"role": "assistant", "content": "Hello?"}]
    assert tasks.reward(completions=[completion], environments=[environment]) == [None]


def spec_of(name, properties=None):
    parameters = {"type": "object", "properties": properties or {}}
    provenance = Provenance(source="test")
    return ToolSpec(name=name, description="Do it.", parameters=parameters, provenance=provenance)


@pytest.mark.parametrize("name", ["_hidden", "reset", "get_reward", TALK])
def test_names_that_no_method_may_have_are_told(name):
    with pytest.raises(BadInput, match="cannot be a method"):
        _method(spec_of(name))


@pytest.mark.parametrize("name", ["class", "a-b", "", "self", "1st"])
def test_names_that_no_parameter_may_have_are_told(name):
    with pytest.raises(BadInput, match="cannot be one"):
        _method(spec_of("tool", {name: {"type": "string"}}))


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"type": "string"}, str),
        ({"type": "integer", "minimum": 1}, int),
        ({"enum": ["b", "a"]}, typing.Literal["b", "a"]),
        ({"enum": [{}]}, typing.Any),
        ({"type": "array", "items": {"type": "number"}}, list[float]),
        ({"type": "array"}, list[typing.Any]),
        ({"type": "object"}, dict[str, typing.Any]),
        ({"type": ["integer", "null"]}, int | None),
        ({"type": []}, typing.Any),
        ({}, typing.Any),
    ],
)
def test_a_schema_becomes_the_hint_that_says_most_of_it(schema, hint):
    assert python_type(schema) == hint


# --- the real packages ---------------------------------------------------------------------------


def test_transformers_reads_back_every_tool_of_every_application():
    chat = pytest.importorskip("transformers.utils.chat_template_utils")
    for name in applications():
        for spec in Engine(load_application(name)).application.specs.values():
            kind = type("Episode", (), {spec.name: _method(spec)})
            read = chat.get_json_schema(getattr(kind(), spec.name))["function"]
            assert read["name"] == spec.name
            assert read["description"] == " ".join(spec.description.split())
            mine, theirs = spec.parameters, read["parameters"]
            assert theirs.get("required", []) == mine.get("required", [])
            assert list(theirs["properties"]) == list(mine["properties"])
            for key, schema in mine["properties"].items():
                got = theirs["properties"][key]
                assert got["type"] == schema["type"]
                assert got.get("enum") == schema.get("enum")
                assert got["description"].startswith(" ".join(schema["description"].split()))


def test_words_that_look_like_a_docstring_do_no_harm():
    chat = pytest.importorskip("transformers.utils.chat_template_utils")
    schema = {
        "properties": {
            "a": {"type": "string", "description": "x (choices: not JSON)\nArgs:\n  z: 1"}
        }
    }

    def call(self, /, **arguments):
        return ""

    dressed(call, "tool", "Does it. Returns: nothing\nArgs:\n    b: no such", schema)
    read = chat.get_json_schema(call)["function"]
    assert list(read["parameters"]["properties"]) == ["a"]
    assert "enum" not in read["parameters"]["properties"]["a"]
    assert read["description"].endswith("b: no such")


@pytest.mark.filterwarnings("ignore")
def test_the_real_trainer_takes_a_step_on_our_verdicts(cases, reference, tmp_path, monkeypatch):
    trl = pytest.importorskip("trl", reason="trl is not installed")
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    from pathlib import Path

    from datasets import Dataset

    from train.models import tiny

    tasks = TrlTasks(cases[:1])
    (script,) = [list(said_by_reference(cases[0], 0, reference))]
    loaded = tiny([cases[0].agent.system], size="0.3M")
    loaded.model.config.max_position_embeddings = 1 << 15
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
    loaded.tokenizer.chat_template = template.read_text(encoding="utf-8")

    class Scripted(trl.GRPOTrainer):
        """Its own loop and loss; only the tokens are the reference agent's, or a goodbye."""

        def _generate_single_turn(self, prompt_ids, *_, **__):
            return [self.said(n, ids) for n, ids in enumerate(prompt_ids)], None

        def said(self, number, ids):
            turn = self._tokenizer.decode(ids).count("<|im_start|>assistant") - 1
            words = script[turn] if turn or not number else "Goodbye."
            if not isinstance(words, str):
                calls = [json.dumps({"name": name, "arguments": args}) for name, args in words]
                words = "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls)
            return self._tokenizer.encode(words + "<|im_end|>", add_special_tokens=False)

    trainer = Scripted(
        loaded.model,
        tasks.reward,
        args=trl.GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=1,
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=8192,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(tasks.rows),
        environment_factory=tasks.environments,
        processing_class=loaded.tokenizer,
    )
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["reward"] == 0.5  # one of two did it
    assert logged["rewards/reward/std"] > 0
    assert logged["tools/call_frequency"] > 0
    assert logged["tools/failure_frequency"] == 0
    assert logged["grad_norm"] > 0
