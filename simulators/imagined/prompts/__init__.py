"""What a model is told that plays tools."""
