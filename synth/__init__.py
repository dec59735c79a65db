"""From tool specifications to a dataset, and the floor below it (synth.core)."""
