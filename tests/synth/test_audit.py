"""Task files of others: what an idle agent passes is listed, and why."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simulators.foreign.tau2 import Retail
from synth.audit import audit, read_tasks
from synth.core.errors import BadInput, BadRow
from tool_registry.effect import effect_of

TAU2 = Path(__file__).parents[3] / "shared" / "data" / "tau2_retail" / "tasks.json"
READ = {"name": "get_order_details", "arguments": {"order_id": "#W1"}}
WRITE = {"name": "cancel_pending_order", "arguments": {"order_id": "#W1"}}
ODD = {"name": "frobnicate", "arguments": {}}


def task(basis, scenario="You want to know the price.", **criteria):
    return {
        "id": "t",
        "user_scenario": {"instructions": scenario},
        "evaluation_criteria": criteria | {"reward_basis": basis},
    }


def audited(folder, *tasks, changes=None):
    path = folder / "tasks.json"
    path.write_text(json.dumps(list(tasks)))
    return [audit(one, lambda name: effect_of(name, {})[0], changes) for one in read_tasks(path)]


@pytest.mark.parametrize(
    ("criteria", "basis", "idle"),
    [
        ({"actions": [READ]}, ["DB"], "passes"),
        ({"actions": []}, ["DB", "COMMUNICATE"], "passes"),
        ({"actions": None, "communicate_info": None}, ["DB"], "passes"),
        ({"actions": [READ, WRITE]}, ["DB"], "fails"),
        ({"actions": [ODD]}, ["DB"], "fails"),
        ({"actions": [READ]}, ["ACTION"], "fails"),
        ({"actions": [READ], "communicate_info": ["12.50"]}, ["DB", "COMMUNICATE"], "fails"),
        ({"actions": [READ], "communicate_info": ["12.50"]}, ["DB"], "passes"),
        ({"actions": [READ], "nl_assertions": ["is polite"]}, ["DB", "NL_ASSERTION"], "judged"),
        ({"actions": [WRITE], "nl_assertions": ["is polite"]}, ["DB", "NL_ASSERTION"], "fails"),
        ({"actions": [READ], "nl_assertions": []}, ["DB", "NL_ASSERTION"], "passes"),
        ({"actions": [], "env_assertions": [{"f": 1}]}, ["ENV_ASSERTION"], "judged"),
        ({"actions": [READ]}, ["SOMETHING_NEW"], "judged"),
    ],
)
def test_an_idle_agent_passes_where_nothing_counts_that_takes_an_action(
    tmp_path, criteria, basis, idle
):
    (found,) = audited(tmp_path, task(basis, **criteria))
    assert found.idle == idle


def test_what_was_executed_counts_more_than_a_name(tmp_path):
    handed = task(["DB"], actions=[{"name": "transfer_to_human_agents", "arguments": {}}])
    assert [one.idle for one in audited(tmp_path, handed)] == ["fails"]
    assert [one.idle for one in audited(tmp_path, handed, changes=False)] == ["passes"]


def test_odd_scoring_is_told(tmp_path):
    scenario = "Your total was 41.10, you have 3 items."
    told, echoed, chance = audited(
        tmp_path,
        task(["DB"], actions=[ODD], communicate_info=["99"]),
        task(["COMMUNICATE"], scenario, communicate_info=["41.10"]),
        task(["COMMUNICATE"], communicate_info=["10", "ten pieces"]),
    )
    assert told.notes == (
        "what it does is unknown: frobnicate",
        "1 of COMMUNICATE are written down and do not count",
    )
    assert "an echo says it" in echoed.notes[0]
    assert chance.notes == ("said by chance: '10'",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("[]", "no list of tasks"),
        ('{"tasks": 3}', "no list of tasks"),
        ('[{"id": "0"}]', "task 0: evaluation_criteria: Field required"),
        ('[{"id": "0", "evaluation_criteria": {"actions": [{}]}}]', "actions.0.name"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_task_file_is_one_clear_line(tmp_path, text, told):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(BadRow) as caught:
        read_tasks(path)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_lists_tasks_and_reasons(tmp_path):
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([task(["DB"], actions=[READ]), task(["DB"], actions=[WRITE])]))
    command = [sys.executable, "-m", "synth", "gate", str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "2 tasks; an idle agent passes 1, 0 more unless a model objects, and fails 1" in shown
    assert "task t: passes (DB met)" in shown
    told = json.loads(subprocess.check_output([*command, "--json"], timeout=60))
    assert told["files"][0]["idle"] == {"passes": 1, "fails": 1}


@pytest.mark.skipif(not TAU2.exists(), reason="the shared data of tau2 is not here")
def test_tau2_has_retail_tasks_that_an_idle_agent_passes():
    audits = [audit(one, lambda name: effect_of(name, {})[0]) for one in read_tasks(TAU2)]
    assert len(audits) == 114
    assert [one.task for one in audits if one.idle == "passes"] == ["25", "57", "65"]
    assert [one.task for one in audits if one.idle == "judged"] == ["24", "62", "67", "68"]


@pytest.mark.skipif(not TAU2.exists(), reason="the shared data of tau2 is not here")
@pytest.mark.filterwarnings("ignore")  # of foreign code
def test_executed_solutions_of_tau2_change_what_their_names_say_but_for_four():
    try:
        domain = Retail()
    except BadInput as error:
        pytest.skip(str(error))
    unlike = {}
    for one in read_tasks(TAU2):
        actions = one.evaluation_criteria.actions
        done = domain.execute((a.name, a.arguments) for a in actions)
        writes = {a.name for a in actions if effect_of(a.name, {})[0].value != "read"}
        if done.changes != bool(writes):
            unlike[one.id] = writes, done.failed
    # Three only hand over; the exchange of the fourth is refused, so its solution changes nothing.
    assert {key for key in unlike if unlike[key][0] == {"transfer_to_human_agents"}} == {
        *("10", "12", "50"),
    }
    assert set(unlike) == {"10", "12", "50", "105"}
    assert "Insufficient gift card balance" in unlike["105"][1][-1]
