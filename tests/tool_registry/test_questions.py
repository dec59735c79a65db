"""The questions of the registry's page run, and give answers."""

import re
from pathlib import Path

import pytest

from tool_registry import browse

PAGE = Path(__file__).parents[2] / "docs" / "registry.md"
QUESTIONS = re.findall(r"^(\S[^\n]*\?)\n```sql\n([^`]*);\n```", PAGE.read_text("utf-8"), re.M)
EMPTY_THERE = {"gave no list", "rug pull", "poisoned", "like this one", "of a server"}
"""Of these, catalogs hold no answer: they need crawls, runs, or that server."""


def test_there_are_ten_questions():
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize(("question", "query"), QUESTIONS, ids=[q for q, _ in QUESTIONS])
def test_a_question_of_the_page_is_answered(real, question, query):
    answer = browse.sql(real, query)
    assert answer.columns
    if not any(words in question for words in EMPTY_THERE):
        assert answer.rows
