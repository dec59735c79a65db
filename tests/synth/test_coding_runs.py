"""Coding tasks in a mixed run: the share is declared, hidden tests decide."""

import asyncio
from collections import Counter

import pytest

from simulators.sandbox.run import why_not
from synth.core.config import Config
from synth.pipeline.job import generate
from synth.pipeline.progress import Goal
from synth.run import read_episodes

pytestmark = pytest.mark.skipif(bool(asyncio.run(why_not())), reason="no confinement")


def test_a_mixed_run_has_accepted_coding_episodes_beside_others(tmp_path):
    settings = {"applications": ["hotel"], "coding_share": 0.5, "agents": 4}
    config = Config.model_validate({"generate": settings})
    asyncio.run(generate(config, tmp_path / "run", tmp_path, Goal(episodes=12)))
    accepted = Counter(
        episode.trajectory.world
        for episode in read_episodes(tmp_path / "run")
        if episode.verdict.passed
    )
    assert accepted["hotel"] >= 2
    assert accepted["sandbox"] >= 2


def test_a_share_of_nothing_leaves_the_fingerprint_of_older_runs_alone():
    assert "coding_share" not in Config().generate.model_dump()
