"""The judge: which trajectories are worth learning from."""

from synth.judge.verdict import judge

__all__ = ["judge"]
