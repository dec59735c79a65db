"""Composing the plan: an environment that breaks costs a candidate, never the run."""

import asyncio

import pytest

from synth.core.config import load_config
from synth.core.errors import BadApplication, DiskFull, ServerFailed, ToolloomError
from synth.pipeline.compose import ATTEMPTS, Composer
from synth.pipeline.worlds import open_applications

CONFIG = load_config(
    None, ["generate.applications=['clinic']", "generate.agents=3", "generate.mix={single_write=1}"]
)


class Fragile:
    """A real world; its environments break as told when they are reset at the gate."""

    def __init__(self, world, *errors, sampling=()):
        self.world, self.errors, self.sampling = world, list(errors), list(sampling)
        self.made = []

    def __getattr__(self, name):
        return getattr(self.world, name)

    async def blueprint(self, *args):
        if self.sampling:
            raise self.sampling.pop(0)
        return await self.world.blueprint(*args)

    def environment(self):
        environment = Breakable(self.world.environment(), self.errors)
        self.made.append(environment)
        return environment


class Breakable:
    def __init__(self, environment, errors):
        self.environment, self.errors, self.closed = environment, errors, False

    def __getattr__(self, name):
        return getattr(self.environment, name)

    async def reset(self, seed):
        if self.errors:
            raise self.errors.pop(0)
        await self.environment.reset(seed)

    async def close(self):
        self.closed = True
        await self.environment.close()


def server_failed(outcome):
    return ServerFailed("it is gone", where="clinic", outcome=outcome)


def compose(*errors, sampling=()):
    """Return the first place of the plan and the world it was made in."""
    world = Fragile(open_applications(["clinic"])["clinic"], *errors, sampling=sampling)

    async def first():
        composer = Composer(CONFIG, {"clinic": world})
        try:
            return await composer.planned(0)
        finally:
            await composer.close()

    try:
        return asyncio.run(first()), world
    finally:
        asyncio.run(world.world.close())


def test_a_server_that_dies_at_the_gate_costs_its_candidate_and_is_replaced():
    planned, world = compose(server_failed("exited"), ToolloomError("odd"))
    assert planned.rejected["environment:exited"] == 1
    assert planned.rejected["environment:error"] == 1
    assert len(world.made) == 3
    assert all(environment.closed for environment in world.made)


def test_a_server_that_dies_while_a_goal_is_sampled_costs_its_candidate():
    planned, _ = compose(sampling=[server_failed("timeout"), server_failed("timeout")])
    assert planned.rejected["environment:timeout"] == 2


def test_a_server_that_always_dies_ends_the_run_with_the_reason():
    with pytest.raises(ToolloomError, match="no task was admitted in 400 tries") as caught:
        compose(sampling=[server_failed("exited") for _ in range(ATTEMPTS)])
    assert f"environment:exited {ATTEMPTS}" in str(caught.value)


@pytest.mark.parametrize("error", [BadApplication("wrong"), DiskFull("full")])
def test_what_no_other_candidate_can_mend_ends_the_run_at_once(error):
    with pytest.raises(type(error)):
        compose(error)
