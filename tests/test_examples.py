"""Every example runs offline and prints what its header says."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
EXPECTED = {
    "01_one_episode.py": "passed: accepted",
    "02_dataset_and_questions.py": "40 rows in",
    "03_a_model_as_agent.py": "judge: rejected",
}


def test_every_example_has_an_expectation():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert EXPECTED[name] in done.stdout
