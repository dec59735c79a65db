"""Pages that the registry draws."""
