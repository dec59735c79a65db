"""Crawler sources, one file each: a plug-in folder."""
