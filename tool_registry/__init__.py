"""Specs: crawl, normalise, store, search, browse."""
