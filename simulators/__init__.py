"""Where tools run: applications, environments, users."""
