"""The engine of executable applications: SQL is the semantics."""
