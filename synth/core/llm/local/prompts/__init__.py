"""Prompts of the embedded model, one Jinja2 file each."""
