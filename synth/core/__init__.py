"""The floor: data, protocols, errors, storage, models, formats. Imports nothing above it."""
