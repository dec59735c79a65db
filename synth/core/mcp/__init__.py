"""Launching Model Context Protocol servers and reading them within bounds."""
