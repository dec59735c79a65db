"""Coding and file chores made from a seed: files, hidden tests, and calls that do what is wanted.

A chore lives in a folder of its own below the project, so that two of them make one project. Names
and numbers are drawn; what a hidden test expects is computed here, and never by the code it tests.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

NOUNS = ("invoice", "parcel", "ticket", "sensor", "recipe", "booking", "meter", "sample", "order",
         "visit", "lesson", "payment")  # fmt: skip
GROUPS = ("north", "south", "east", "west", "centre", "harbour", "airport", "valley")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, slots=True)
class Chore:
    """One thing to do in a project."""

    clause: str
    """After "I would like to"."""
    files: Mapping[str, str]
    look: str
    """The file that is read first."""
    test: str
    """A `unittest` module."""
    calls: tuple[tuple[str, dict[str, str]], ...]
    """Tools and arguments that do it."""
    wrong: tuple[tuple[str, dict[str, str]], ...]
    """Calls that come near and do not."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a file tells."""

    clause: str
    label: str
    path: str
    other: str
    """Another file of the kind, which tells something else."""
    files: Mapping[str, str]
    value: int


Maker: TypeAlias = Callable[[random.Random, str], Chore]


def _edit(path: str, old: str, new: str) -> tuple[str, dict[str, str]]:
    return "edit_file", {"path": path, "old_text": old, "new_text": new}


def _test(body: str, imports: str = "") -> str:
    """Return a test module with one test; `HERE` is the project."""
    lines = "\n".join("        " + line for line in body.strip().splitlines())
    return (
        f"import json\nimport unittest\n{imports}\n\n"
        f"class Chore(unittest.TestCase):\n    def test_it(self):\n{lines}\n"
    )


def rounding(rng: random.Random, place: str) -> Chore:
    """A share of an amount in cents is cut off where it should be rounded."""
    noun, percent = rng.choice(NOUNS), rng.choice((7, 9, 13, 17, 19, 21, 23))
    name, path = f"{noun}_tax", f"{place}/amounts.py"
    head = f'def {name}(cents):\n    """Return {percent} % of an amount in cents."""\n'
    old, new = f"    return cents * {percent} // 100", f"    return (cents * {percent} + 50) // 100"
    near = f"    return (cents * {percent} + 99) // 100"
    cases = [
        (c, (c * percent + 50) // 100) for c in (0, 1, 10, 50, *rng.sample(range(60, 9999), 6))
    ]
    # One that is rounded up and one that is rounded down: either mistake is seen.
    up = next(c for c in range(100, 300) if c * percent % 100 >= 50)
    down = next(c for c in range(100, 300) if 0 < c * percent % 100 < 50)
    cases += [(c, (c * percent + 50) // 100) for c in (up, down)]
    body = "\n".join(f"self.assertEqual({name}({c}), {v})" for c, v in cases)
    clause = (
        f"have {name} in {path} corrected: it cuts off fractions of a cent and should round them, "
        "half a cent upwards"
    )
    test = _test(body, f"from {place}.amounts import {name}")
    text = f"{head}{old}\n"
    return Chore(clause, {path: text, f"{place}/__init__.py": ""}, path, test,
                 (_edit(path, old, new),), (_edit(path, old, near),))  # fmt: skip


def comments(rng: random.Random, place: str) -> Chore:
    """A reader of settings stumbles over comments and empty lines."""
    mark, sign = rng.choice("#;!%"), rng.choice("=:")
    keys = rng.sample(NOUNS, 3)
    path = f"{place}/reader.py"
    old = f'        key, value = line.split("{sign}")\n        found[key.strip()] = value.strip()'
    skip = f'        if not line.strip() or line.lstrip()[0] == "{mark}":\n            continue\n'
    more = (
        f'        key, value = line.split("{sign}", 1)\n        found[key.strip()] = value.strip()'
    )
    text = f'def read(lines):\n    """Return the settings in lines."""\n    found = {{}}\n    for line in lines:\n{old}\n    return found\n'  # noqa: E501
    lines = [f"{mark} {keys[0]} {sign} 0", "", *(f"{k} {sign} {i}" for i, k in enumerate(keys, 4))]
    lines += ["   ", f"  {mark} the end", f"address {sign} a{sign}b"]
    wanted = {k: str(i) for i, k in enumerate(keys, 4)} | {"address": f"a{sign}b"}
    clause = (
        f"have read in {path} made to skip empty lines and comments, which begin with {mark}, and "
        f"to split a line at its first {sign} only"
    )
    test = _test(
        f"self.assertEqual(read({lines!r}), {wanted!r})", f"from {place}.reader import read"
    )
    return Chore(clause, {path: text, f"{place}/__init__.py": ""}, path, test,
                 (_edit(path, old, skip + more),), (_edit(path, old, skip + old),))  # fmt: skip


def setting(rng: random.Random, place: str) -> Chore:
    """One value in a JSON file is to be another."""
    path, groups = f"{place}/settings.json", rng.sample(GROUPS, 4)
    tree = {
        g: {"limit": rng.randint(10, 99) * 10 + i, "active": True} for i, g in enumerate(groups)
    }
    group, other = rng.sample(groups, 2)
    value = rng.randint(1000, 9000)
    text = json.dumps(tree, indent=2) + "\n"

    def change(which: str) -> tuple[str, dict[str, str]]:
        was = f'"limit": {tree[which]["limit"]}'
        return _edit(path, was, f'"limit": {value}')

    wanted = {g: {**v, "limit": value} if g == group else v for g, v in tree.items()}
    body = f"with open({path!r}) as file:\n    self.assertEqual(json.load(file), {wanted!r})"
    clause = f"have the limit of {group} in {path} set to {value}, and nothing else changed there"
    return Chore(clause, {path: text}, path, _test(body), (change(group),), (change(other),))


def renaming(rng: random.Random, place: str) -> Chore:
    """A function is called otherwise, in all modules that use it."""
    noun, k = rng.choice(NOUNS), rng.randint(2, 9)
    old, new = f"count_{noun}s", f"number_of_{noun}s"
    made, used = f"{place}/counting.py", f"{place}/report.py"
    files = {
        f"{place}/__init__.py": "",
        made: f"def {old}(items):\n    return len(items) * {k}\n",
        used: f"from {place} import counting\n\n\ndef line(items):\n"
        f'    return "total " + str(counting.{old}(items))\n',
    }
    body = (
        f"self.assertEqual(counting.{new}([1, 2]), {2 * k})\n"
        f'self.assertFalse(hasattr(counting, "{old}"))\n'
        f'self.assertEqual(report.line([1]), "total {k}")'
    )
    first = _edit(made, f"def {old}", f"def {new}")
    second = _edit(used, f"counting.{old}", f"counting.{new}")
    clause = f"have the function {old} in {made} called {new}, also where {used} uses it"
    test = _test(body, f"from {place} import counting, report")
    return Chore(clause, files, used, test, (first, second), (first,))


def totals(rng: random.Random, place: str) -> Chore:
    """Amounts of a table are to be summed up by group in a file."""
    path, out = f"{place}/amounts.csv", f"{place}/{rng.choice(NOUNS)}_totals.txt"
    groups = rng.sample(GROUPS, 4)
    rows = [(rng.choice(groups), rng.randint(1, 900)) for _ in range(18)]
    rows += [(g, rng.randint(1, 900)) for g in groups]
    sums = {g: sum(a for group, a in rows if group == g) for g in sorted(groups)}
    text = "place,amount\n" + "".join(f"{g},{a}\n" for g, a in rows)
    wanted = "".join(f"{g} {a}\n" for g, a in sums.items())
    body = f"with open({out!r}) as file:\n    self.assertEqual(file.read(), {wanted!r})"
    clause = (
        f"have the amounts in {path} summed up by place in {out}: a line for each place, its name, "
        "a space and the sum, in alphabetical order"
    )
    near = "".join(f"{g} {sums[g]}\n" for g in sorted(groups, reverse=True))
    return Chore(clause, {path: text}, path, _test(body),
                 (("write_file", {"path": out, "content": wanted}),),
                 (("write_file", {"path": out, "content": near}),))  # fmt: skip


def sieve(rng: random.Random, place: str) -> Chore:
    """The lines of one level are to be written to another file."""
    path = f"{place}/app.log"
    level, other = rng.sample(LEVELS, 2)
    out = f"{place}/{level.lower()}_{rng.choice(NOUNS)}.log"
    lines = [f"{rng.choice(LEVELS)} {rng.choice(NOUNS)} {rng.randint(100, 999)}" for _ in range(14)]
    lines += [f"{level} {rng.choice(NOUNS)} 7", f"{other} mentions {level} only"]
    rng.shuffle(lines)

    def those(which: str) -> str:
        return "".join(line + "\n" for line in lines if line.split()[0] == which)

    body = f"with open({out!r}) as file:\n    self.assertEqual(file.read(), {those(level)!r})"
    clause = f"have the lines of {path} that begin with {level} written to {out}, in their order"
    near = "".join(line + "\n" for line in lines if level in line)
    text = "".join(line + "\n" for line in lines)
    return Chore(clause, {path: text}, path, _test(body),
                 (("write_file", {"path": out, "content": those(level)}),),
                 (("write_file", {"path": out, "content": near}),))  # fmt: skip


def window(rng: random.Random, place: str) -> Chore:
    """A function is missing."""
    width, what = rng.randint(2, 5), rng.choice(("max", "min", "sum"))
    name, path = f"moving_{what}", f"{place}/windows.py"
    numbers = [rng.randint(-50, 50) for _ in range(9)]
    wanted = [_over(what, numbers[i : i + width]) for i in range(len(numbers) - width + 1)]
    text = '"""Functions over windows of a list."""\n'
    new = (
        f"{text}\n\ndef {name}(numbers):\n"
        f"    return [{what}(numbers[i:i + {width}]) for i in range(len(numbers) - {width - 1})]\n"
    )
    near = new.replace(f"- {width - 1}", f"- {width}")
    body = (
        f"self.assertEqual({name}({numbers!r}), {wanted!r})\nself.assertEqual({name}([1]), [])\n"
        f"self.assertEqual(len({name}([1] * {width})), 1)"
    )
    clause = (
        f"have a function {name} added to {path}: it takes a list of numbers and returns the list "
        f"of the {what} of every {width} neighbours"
    )
    files = {path: text, f"{place}/__init__.py": ""}
    test = _test(body, f"from {place}.windows import {name}")
    return Chore(clause, files, path, test, (("write_file", {"path": path, "content": new}),),
                 (("write_file", {"path": path, "content": near}),))  # fmt: skip


def _over(what: str, some: list[int]) -> int:
    return sum(some) if what == "sum" else max(some) if what == "max" else min(some)


def pattern(rng: random.Random, place: str) -> Chore:
    """A check of codes lets too much pass."""
    letters, digits = rng.randint(2, 4), rng.randint(2, 5)
    noun = rng.choice(NOUNS)
    name, path = f"is_{noun}_code", f"{place}/codes.py"
    old = f'    return re.match("[A-Za-z]{{{letters}}}-[0-9]{{{digits}}}", text) is not None'
    new = f'    return re.fullmatch("[A-Z]{{{letters}}}-[0-9]{{{digits}}}", text) is not None'
    near = new.replace("fullmatch", "match")
    good = "".join(rng.choice("ABCXYZ") for _ in range(letters)) + "-" + "7" * digits
    bad = [good.lower(), good + "7", "-" + good, good[1:], good.replace("-", ""), "", good + " "]
    body = f"self.assertTrue({name}({good!r}))\n" + "\n".join(
        f"self.assertFalse({name}({text!r}))" for text in bad
    )
    clause = (
        f"have {name} in {path} made stricter: a code is exactly {letters} capital letters, a "
        f"hyphen and {digits} digits, with nothing after them"
    )
    files = {path: f"import re\n\n\ndef {name}(text):\n{old}\n", f"{place}/__init__.py": ""}
    test = _test(body, f"from {place}.codes import {name}")
    return Chore(clause, files, path, test, (_edit(path, old, new),), (_edit(path, old, near),))


MAKERS: tuple[Maker, ...] = (
    rounding,
    comments,
    setting,
    renaming,
    totals,
    sieve,
    window,
    pattern,
)


def question(rng: random.Random, place: str) -> Question:
    """Ask for the amount of one place in a file."""
    path, other = f"{place}/monday.csv", f"{place}/tuesday.csv"
    group = rng.choice(GROUPS)
    amounts = rng.sample(range(100, 9_900), 2 * len(GROUPS))

    def text(some: list[int]) -> str:
        lines = [f"{g},{amount}" for g, amount in zip(GROUPS, some, strict=True)]
        rng.shuffle(lines)
        return "place,amount\n" + "\n".join(lines) + "\n"

    half = len(GROUPS)
    files = {path: text(amounts[:half]), other: text(amounts[half:])}
    clause = f"find out which amount {path} has for {group}"
    value = amounts[GROUPS.index(group)]
    return Question(clause, f"amount for {group}", path, other, files, value)
