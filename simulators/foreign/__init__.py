"""Simulated classes of other projects as environments of ours: their code runs in this process."""
