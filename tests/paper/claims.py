"""What the Kimi reports claim and this project does, each tied to the tests that hold it.

The tests carry the claim as a mark (`pytest.mark.claim("k2-state")`). `test_claims.py` checks that
marks and manifest agree, and that `docs/papers.md` lists exactly these claims. Gaps are data too:
a claim without tests says why.
"""

from __future__ import annotations

from typing import NamedTuple


class Claim(NamedTuple):
    """One statement of a report."""

    source: str
    behaviour: str
    tests: tuple[str, ...] = ()
    """`path::function` below tests/; a path alone is the whole file."""
    gap: str = ""
    """Why there is no test: not built yet."""


GENERATION = "synth/test_generation.py::test_"
CLAIMS = {
    "k2-specs": Claim(
        "K2 3.1.1",
        "real MCP tools and executable ones lie in one repository with their origin",
        (GENERATION + "one_query_says_which_rows_used_a_tool_and_from_where_a_row_came",),
    ),
    "k2-evolution": Claim(
        "K2 3.1.1",
        "tools evolved over categories, applications and tools, each of which runs",
        (
            "synth/test_evolve.py::test_all_that_is_kept_runs_as_it_was_proved",
            "invention/test_inventing.py::test_each_candidate_ends_as_its_replies_deserve",
        ),
    ),
    "k2-agents": Claim(
        "K2 3.1.1",
        "distinct agents from system prompts and toolsets",
        ("synth/test_agents.py",),
    ),
    "k2-rubrics": Claim(
        "K2 3.1.1",
        "each task has success criteria, tool-use patterns and checkpoints",
        ("synth/test_rubrics.py", "synth/test_gate.py", "synth/test_canaries.py"),
    ),
    "k2-solvable": Claim(
        "K2 3.1.1",
        "the solution passes its rubric and an idle agent fails it",
        (
            GENERATION
            + "the_solution_passes_and_doing_nothing_fails_for_every_kind_and_application",
            "synth/test_audit_tasks.py",
        ),
    ),
    "k2-users": Claim(
        "K2 3.1.1",
        "personas with distinct styles, who invent nothing",
        (
            "simulators/test_users_scripted.py",
            "simulators/test_users_alone.py::"
            "test_a_scripted_user_never_utters_an_identifier_that_is_not_in_its_facts",
            GENERATION + "users_never_say_an_identifier_they_were_not_given",
        ),
    ),
    "k2-state": Claim(
        "K2 3.1.1",
        "the simulator keeps state after every call and replays to the byte",
        (
            "simulators/test_sql_machine.py",
            GENERATION + "accepted_trajectories_replay_to_identical_bytes_and_the_same_final_state",
        ),
    ),
    "k2-world-model": Claim(
        "K2 3.1.1",
        "a model plays the tools over a state that code keeps typed and consistent",
        ("simulators/test_imagined.py", "simulators/test_imagined_rows.py"),
    ),
    "k2-outcomes": Claim(
        "K2 3.1.1",
        "calls succeed, partly succeed and fail at configured rates, and can be recovered from",
        ("simulators/test_faulty.py",),
    ),
    "k2-real": Claim(
        "K2 3.1.1",
        "real execution where authenticity matters",
        ("simulators/test_live_environment.py", "simulators/test_live_files.py"),
    ),
    "k2-filter": Claim(
        "K2 3.1.1",
        "only trajectories that meet the criteria are kept",
        (
            GENERATION + "the_judge_rejects_every_planted_fault_and_no_original",
            GENERATION + "the_final_state_of_every_accepted_episode_is_the_one_its_task_wanted",
            "synth/test_audit_runs.py",
        ),
    ),
    "k2-format": Claim(
        "K2 appendix B",
        "tool calls as text, names with hyphens and dots included",
        ("core/test_formats_kimi.py",),
    ),
    "k15-sft": Claim(
        "K1.5 2.5.2",
        "loss on the assistant's tokens only, the stop token included",
        ("train/test_renderer.py",),
    ),
    "k15-objective": Claim(
        "K1.5 2.3.2, K2 3.2.3",
        "squared regression on the sequence log-ratio, its gradient that of equation 3",
        ("train/test_objective.py",),
    ),
    "k2-muon": Claim("K2 2.1", "Muon and QK-clip", gap="not built yet"),
    "k2-critic": Claim("K2 3.2.2", "self-critique rubric reward", gap="not built yet"),
}
