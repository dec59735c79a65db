"""Our episodes as other projects step them: Gymnasium, TRL, verifiers. No trainer is imported."""
