"""The SQL and the words of a twin's tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulators.twin.making import MANY, MARKS, generator
from simulators.twin.nouns import ATTRIBUTES, Noun, names_own, row_keys
from simulators.twin.reading import Read, Reading
from synth.core.errors import NotSuitable


class Writer:
    """Writes one tool.

    Args:
        nouns: all tables of the twin.
        reading: what the tool does.
    """

    def __init__(self, nouns: Mapping[str, Noun], reading: Reading) -> None:
        self.nouns, self.reading = nouns, reading
        self.noun = nouns[reading.noun]
        self.keys = [p.name for p in row_keys(self.noun, reading)]

    def tool(self) -> dict[str, Any]:
        """Return the tool, as an application's file has it.

        Raises:
            NotSuitable: nothing tells which row it is about (`key`), or there is nothing to set.
        """
        verb = self.reading.verb
        write = {"create": self._create, "update": self._update, "delete": self._delete}
        body = write[verb]() if verb in write else self._read()
        effect = {"show": "read", "list": "read", "delete": "destructive"}.get(verb, "write")
        parameters = {p.name: self._parameter(p) for p in self.reading.parameters}
        words = f"{verb} {self.noun.words}"
        return {"description": words, "effect": effect, "parameters": parameters, **body}

    # --- parameters --------------------------------------------------------------------------

    def _parameter(self, one: Read) -> dict[str, Any]:
        out: dict[str, Any] = {"type": one.type, "optional": not one.required}
        if one.role == "limit":
            return out | {"minimum": 10, "maximum": 50, "label": "most results"}
        if one.role == "search":
            return out | {"match": f"{self.noun.table}.name", "op": "contains", "label": "name"}
        if self._own(one):
            return out | {"entity": f"{self.noun.table}.id"}
        if one.name in self.noun.refers:
            return out | {"entity": f"{self.nouns[self.noun.refers[one.name]].table}.id"}
        column = f"{self.noun.table}.{one.name}"
        if "enum" in one.schema:
            out["enum"] = list(dict.fromkeys(one.schema["enum"]))
        if self._sets(one):
            return out | {"sets": column, "generate": generator(one, unique=False)}
        return out | {"match": column}

    def _own(self, one: Read) -> bool:
        return self.noun.keyed and names_own(self.noun, one)

    def _sets(self, one: Read) -> bool:
        verb = self.reading.verb
        if one.role != "column" or self._own(one):
            return False
        return verb == "create" or (verb == "update" and one.name not in self.keys)

    # --- what it does ------------------------------------------------------------------------

    def _columns(self) -> list[str]:
        """Return what is shown of a row."""
        return list(dict.fromkeys(("id", "name", *self.noun.columns, *ATTRIBUTES)))

    def _conditions(self) -> list[str]:
        found = []
        for one in self.reading.parameters:
            if one.role == "limit" or self._sets(one):
                continue
            column = "id" if self._own(one) else one.name
            if one.role == "search":
                test = f"instr(lower(name), lower(:{one.name})) > 0"
            else:
                test = f"{column} = :{one.name}"
            found.append(test if one.required else f"(:{one.name} IS NULL OR {test})")
        return found

    def _where(self) -> str:
        return " AND ".join(self._conditions()) or "1"

    def _named(self) -> str:
        """Say which row is meant, in words of ours around values."""
        parts = []
        for one in self.reading.parameters:
            if self._own(one):
                return f'the {self.noun.words} "{{{{ {one.name}.name }}}}"'
            if one.required and one.role == "column" and not self._sets(one):
                path = f"{one.name}.name" if one.name in self.noun.refers else one.name
                parts.append(f"{self._label(one)} {{{{ {path} }}}}")
        return f"the {self.noun.words} with " + " and ".join(parts) if parts else ""

    def _label(self, one: Read) -> str:
        if one.name in self.noun.refers:
            return self.nouns[self.noun.refers[one.name]].words
        return one.name.strip("_").removeprefix("own_").replace("_", " ")

    def _read(self) -> dict[str, Any]:
        table, where = self.noun.table, self._where()
        columns = ", ".join(self._columns())
        limit = next((p for p in self.reading.parameters if p.role == "limit"), None)
        most = f" LIMIT CAST(coalesce(:{limit.name}, {MANY}) AS INTEGER)" if limit else ""
        select = f"SELECT {columns} FROM {table} WHERE {where}"
        search = next((p for p in self.reading.parameters if p.role == "search"), None)
        which = self._named()
        if self.reading.verb == "show" and which:
            step = {"return": f"{select} ORDER BY id LIMIT 1", "shape": "object"}
            return {"steps": [*self._exists(where), step], "questions": self._asked(which)}
        step = {"return": f"{select} ORDER BY id{most}", "shape": "list"}
        if search is not None:
            which = f'the {self.noun.words} called "{{{{ {search.name} }}}}"'
            return {"steps": [step], "questions": self._asked(which)}
        narrow = [p for p in self.reading.parameters if p.role == "column" and p.name not in MARKS]
        if which or not narrow or self._own(narrow[0]):
            questions = {"name": f"what {which} is called"} if which else {}
            return {"steps": [step], "questions": questions}
        one = narrow[0]
        path = f"{one.name}.name" if one.name in self.noun.refers else one.name
        asked = f"how a {self.noun.words} with {self._label(one)} {{{{ {path} }}}} is called"
        return {"steps": [step], "questions": {"name": asked}}

    def _asked(self, which: str) -> dict[str, str]:
        return {
            "status": f"what the status of {which} is",
            "updated": f"when {which} was last updated",
            "owner_name": f"who owns {which}",
        }

    def _exists(self, where: str) -> list[dict[str, Any]]:
        """Return the condition that there is such a row; of a key the engine sees to it itself."""
        given = [p for p in self.reading.parameters if p.role == "column" and not self._sets(p)]
        if all(self._own(p) for p in given):
            return []
        condition = {
            "require": f"SELECT EXISTS (SELECT 1 FROM {self.noun.table} WHERE {where})",
            "error": "no_such_row",
            "message": f"There is no such {self.noun.words}.",
        }
        return [condition]

    def _create(self) -> dict[str, Any]:
        sets = [p for p in self.reading.parameters if p.role == "column"]
        if not sets:
            raise NotSuitable("nothing_to_set")
        noun = self.noun
        given = {p.name for p in sets}
        titled = next((p.name for p in sets if p.name in ("title", "subject", "label")), None)
        title = f":{titled}" if titled else "'new'"
        values = {
            "id": ":new_id",
            "name": title,
            "status": "'open'",
            "updated": "substr(now(), 1, 10)",
        }
        values["owner_name"] = "'API'"
        used = [n for n in self._columns() if n in given or n in values]
        row = [f":{n}" if n in given else values[n] for n in used]
        said = [p for p in sets if p.required] or sets[:2]
        into = f"{noun.table} ({', '.join(used)})"
        return {
            "steps": [
                {"let": {"new_id": f"SELECT next_id('{noun.prefix}')"}},
                {"write": f"INSERT INTO {into} VALUES ({', '.join(row)})"},
                {"return": f"SELECT id FROM {noun.table} WHERE id = :new_id", "shape": "object"},
            ],
            "intent": f"have a new {noun.words} made with {self._said(said)}",
        }

    def _said(self, some: Sequence[Read]) -> str:
        paths = [f"{p.name}.name" if p.name in self.noun.refers else p.name for p in some]
        both = zip(map(self._label, some), paths, strict=True)
        return ", ".join(f"{label} {{{{ {path} }}}}" for label, path in both)

    def _update(self) -> dict[str, Any]:
        which, where = self._named(), self._where()
        sets = [p for p in self.reading.parameters if self._sets(p)]
        if not which or where == "1":
            raise NotSuitable("key")
        if not sets:
            raise NotSuitable("nothing_to_set")
        said = [p for p in sets if p.required] or sets[:1]
        change = ", ".join(f"{p.name} = coalesce(:{p.name}, {p.name})" for p in sets)
        table = self.noun.table
        return {
            "steps": [
                *self._exists(where),
                {"write": f"UPDATE {table} SET {change} WHERE {where}"},
            ],
            "intent": f"have {which} changed to {self._said(said)}",
        }

    def _delete(self) -> dict[str, Any]:
        which, where = self._named(), self._where()
        if not which or where == "1":
            raise NotSuitable("key")
        return {
            "steps": [
                *self._exists(where),
                {"write": f"DELETE FROM {self.noun.table} WHERE {where}", "rows": "any"},
            ],
            "intent": f"have {which} deleted",
        }
