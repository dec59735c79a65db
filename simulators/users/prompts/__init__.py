"""Prompts of model-played users, one Jinja2 file each."""
