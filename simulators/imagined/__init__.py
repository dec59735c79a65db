"""Tools that a model plays over a typed, persistent state; see `environment`."""
