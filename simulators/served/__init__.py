"""Environments as Model Context Protocol servers, for agents of others (`toolloom serve`)."""
