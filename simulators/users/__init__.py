"""Simulated users: scripted voices, and a model."""
