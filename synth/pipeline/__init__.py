"""Wires generation: worlds → agents → tasks → gate → play → judge → run folder → registry.

The only part below the command that knows the sibling packages.
"""
