"""Confinement of processes that run code of strangers."""
