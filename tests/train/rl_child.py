"""Reinforcement on a task small enough to know the answer, as a program that can be killed.

python rl_child.py FOLDER: trains there, then leaves the engine's whole state in FOLDER/end.
"""

import asyncio
import sys
from pathlib import Path

import torch

from train.batches import Row
from train.engine import Sampling, TorchEngine
from train.models import tiny
from train.rl import RlConfig, Sample, train_rl


class Bandit:
    """One token is asked for; tokens of the right parity pay 1. Some pulls pay nothing known.

    Args:
        lost: share of the pulls whose pay is not known.
        idle: every so many iterations no pay is known at all, so that nothing is learned.
        prefix: begins every prompt.
    """

    endings = ([5, 6, 7], [8, 9])

    def __init__(self, lost=0.0, idle=0, prefix=()):
        self.lost, self.idle, self.prefix = lost, idle, list(prefix)
        self.called = 0

    def __len__(self):
        return len(self.endings)

    def key(self):
        return f"bandit {self.lost} {self.idle} {self.prefix}"

    async def __call__(self, engine, tasks, k, *, temperature, seed):
        one = Sampling(stop=(), max_tokens=1, temperature=temperature)
        idle = self.idle and seed % self.idle == 0
        groups = []
        for n, task in enumerate(tasks):
            prompt = self.prefix + self.endings[task]
            drawn = engine.sample([prompt] * k, one, [seed + 1000 * n + i for i in range(k)])
            groups.append(
                [
                    Sample(
                        Row(prompt + d.ids, [0.0] * len(prompt) + [1.0]),
                        d.logprobs,
                        None if idle or i < self.lost * k else float(d.ids[0] % 2 == task),
                    )
                    for i, d in enumerate(drawn)
                ]
            )
        return groups


def main(folder):
    """Train a tiny model with many idle iterations and a checkpoint after each."""
    engine = TorchEngine(tiny(["some text to learn letters from"], size="0.3M"), places=512)
    config = RlConfig(iterations=16, tasks=2, k=6, lr=1e-3, temperature=1.0, checkpoint_every=1)
    rollouts = Bandit(idle=2, prefix=range(20, 140))
    result = asyncio.run(train_rl(engine, rollouts, config, folder))
    print(f"went on from {result.resumed_from}")
    (folder / "end").mkdir()
    engine.save_state(folder / "end")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
