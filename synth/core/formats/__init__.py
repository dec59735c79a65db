"""The tool-call text of each model family: parse and write."""
