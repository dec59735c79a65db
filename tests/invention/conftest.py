"""What a model replies that writes applications: a good one, and ways to spoil it."""

import copy
import json
from pathlib import Path

import pytest

SKETCH = json.loads(Path(__file__).with_name("allotments.json").read_text(encoding="utf-8"))


class Replies:
    """Replies as values; `json.dumps` makes what comes over the wire."""

    def good(self, **changes):
        """Return a sound application with other values."""
        return copy.deepcopy(SKETCH) | changes

    def with_sql(self, sql):
        """Return one whose deletion is other SQL."""
        made = self.good()
        (found,) = [tool for tool in made["tools"] if tool["name"] == "withdraw_hire"]
        found["steps"][-1]["sql"] = sql
        return made

    def with_words(self, words):
        """Return one of whose tools one says this of itself."""
        made = self.good()
        made["tools"][0]["description"] = words
        return made

    def other(self, number):
        """Return a sound one that does what no other does: its nouns are its own."""
        text = json.dumps(SKETCH)
        for noun in ("gardener", "hire", "arrears"):
            text = text.replace(noun, f"{noun}{number}x")
        return json.loads(text)

    def counting(self, table):
        """Return a change: a tool that counts the rows of a table."""
        step = {"do": "return", "sql": f"SELECT count(*) AS number FROM {table}"}
        tool = {
            "name": f"how_many_{table}",
            "description": f"Tell how many {table.replace('_', ' ')} are on record.",
            "effect": "read",
            "parameters": [],
            "steps": [step],
        }
        return {"words": f"{table} can be counted", "tools": [tool]}


@pytest.fixture(scope="session")
def replies():
    """Replies of a model."""
    return Replies()
