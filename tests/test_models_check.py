"""`toolloom models check`: a table for people, one object for programs, exit 3 where it fails."""

import json

import pytest

from synth import app
from synth.core.llm.mock.threads import serving


def run(tmp_path, capsys, *arguments):
    code = app.main(["--workspace", str(tmp_path), *arguments])
    return code, capsys.readouterr()


def roles(url, model="m", names=("agent", "user")):
    for name in names:
        yield from (
            "--set",
            f"models.{name}.model={model}",
            "--set",
            f"models.{name}.base_url={url}",
        )


def test_every_role_that_is_configured_is_tried(tmp_path, capsys):
    with serving(seed=1) as mock:
        code, said = run(tmp_path, capsys, "models", "check", "--probes", "2", *roles(mock.url))
    assert code == 0
    user, agent = said.out.splitlines()
    assert user.startswith("user ")
    assert agent.startswith("agent")
    assert "tools yes (of 2: 2 called, 2 valid, 0 right)" in agent
    assert "usage yes" in agent
    assert not list(tmp_path.iterdir())  # nothing is written


def test_what_a_role_lacks_is_exit_code_3_in_data_too(tmp_path, capsys):
    with serving(seed=1) as mock:
        options = roles(mock.url, "fault:http_401", ["agent"])
        code, said = run(tmp_path, capsys, "models", "check", "--json", *options)
    assert code == 3
    (row,) = json.loads(said.out)["roles"]
    assert (row["role"], row["reachable"], row["missing"]) == ("agent", False, ["reachable"])
    assert "401" in row["error"]
    assert "missing: agent: reachable" in said.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("check",), "no role has a model"), (("fetch",), "which model?")],
)
def test_what_is_missing_on_the_command_line_is_said(tmp_path, capsys, arguments, says):
    code, said = run(tmp_path, capsys, "models", *arguments)
    assert code == 2
    assert says in said.err
