"""Bash, Python and files in a confined process, for coding agents."""
