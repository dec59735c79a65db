"""Prompt texts of `synth`: Jinja2 files, loaded by `synth.core.prompts`."""
