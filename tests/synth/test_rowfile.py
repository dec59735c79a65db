"""Rows of a file that are not in memory: the same rows, however they are read."""

import pytest

from synth.core.errors import BadRow
from synth.core.types import Usage
from synth.rowfile import RowFile


def rows(count):
    return [Usage(prompt_tokens=10**number, completion_tokens=number) for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, 9])
def test_rows_are_the_same_one_by_one_in_order_and_opened_again(tmp_path, count):
    file = RowFile(tmp_path / "a.jsonl", Usage)
    places = [file.append(row) for row in rows(count)]
    seen = []
    again = RowFile(tmp_path / "a.jsonl", Usage, seen=lambda row, place: seen.append((place, row)))
    for one in (file, again):
        assert len(one) == count
        assert list(one) == [one[place] for place in places] == rows(count)
        one.close()
        assert list(one) == rows(count)
    assert seen == list(enumerate(rows(count)))


def test_rows_are_appended_while_others_are_read(tmp_path):
    file = RowFile(tmp_path / "a.jsonl", Usage)
    for number, row in enumerate(rows(9)):
        file.append(row)
        assert [file[place] for place in range(number + 1)] == rows(number + 1)
    reading = iter(file)
    first = [next(reading) for _ in range(5)]
    file.append(rows(1)[0])
    assert [*first, *reading] == rows(9)
    file.close()


def test_a_row_that_was_changed_since_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    file = RowFile(path, Usage)
    for row in rows(6):
        file.append(row)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"10000", b"10001"))
    assert file[3] == rows(4)[3]
    for read in (lambda: file[4], lambda: list(file)):
        with pytest.raises(BadRow, match=r"a\.jsonl:5: the row is damaged"):
            read()
    file.close()
