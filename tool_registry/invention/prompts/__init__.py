"""Prompts of evolution by a model."""
