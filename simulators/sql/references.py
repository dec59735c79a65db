"""Names an application uses outside its tools must exist: tables, columns, conditions."""

from __future__ import annotations

from simulators.sql.compile import Compiler, suggest
from simulators.sql.guard import Mode


def check_references(compiler: Compiler) -> None:
    """Check user, known, identify, labels, money, compare, never, seed and policy rules.

    Raises:
        BadApplication: the first name that does not exist.
    """
    application = compiler.application
    _user(compiler)
    for table, columns in application.known.items():
        for column in columns:
            compiler.origin(f"{table}.{column}", f"known.{table}")
    for key, listed in (
        ("labels", tuple(application.labels)),
        ("money", application.money),
        ("compare", tuple(application.compare)),
    ):
        for column in listed:
            compiler.origin(column, key)
    for column in application.compare:
        if column.endswith(".id"):
            raise compiler.fail("compare", f"{column} is the key of its row", "leave it out")
    for number, rule in enumerate(application.policy_rules):
        names = {*application.tools[rule.tool].parameters, "user_id"}
        path = f"policy_rules[{number}].when"
        if len(compiler.look(rule.when, Mode.READ, path, names).columns) != 1:
            raise compiler.fail(path, "more than one column", "select one value")
    for what, sql in application.never.items():
        compiler.look(sql, Mode.READ, f"never.{what}", ())
    _samples(compiler)
    _seed(compiler)


def _user(compiler: Compiler) -> None:
    application = compiler.application
    user = application.user
    if user.table is None:
        if user.where or application.identify:
            raise compiler.fail("user", "an operator has no row", "give user.table")
        return
    compiler.origin(f"{user.table}.id", "user.table")
    for column in application.identify:
        compiler.origin(f"{user.table}.{column}", "identify")
    if user.where:
        sql = f'SELECT id FROM "{user.table}" WHERE {user.where}'
        compiler.look(sql, Mode.READ, "user.where", ())


def _samples(compiler: Compiler) -> None:
    for name, tool in compiler.application.tools.items():
        known = {"user_id"}
        for key, parameter in tool.parameters.items():
            if parameter.sample is not None:
                path = f"tools.{name}.parameters.{key}.sample"
                compiler.look(parameter.sample, Mode.READ, path, known)
            known.add(key)


def _seed(compiler: Compiler) -> None:
    for table, rules in compiler.application.seed.items():
        if table not in compiler.tables:
            raise compiler.fail(f"seed.{table}", "no such table", suggest(table, compiler.tables))
        for column in rules.columns:
            compiler.origin(f"{table}.{column}", f"seed.{table}.columns")
        for number, row in enumerate(rules.rows):
            for column in row:
                compiler.origin(f"{table}.{column}", f"seed.{table}.rows[{number}]")
        if rules.each is not None and rules.each not in compiler.application.seed:
            raise compiler.fail(
                f"seed.{table}.each",
                f"no seeded table {rules.each!r}",
                suggest(rules.each, compiler.application.seed),
            )
    for number, sql in enumerate(compiler.application.after_seed):
        path = f"after_seed[{number}]"
        if compiler.look(sql, Mode.WRITE, path, ()).readonly:
            raise compiler.fail(path, "the statement writes nothing", "UPDATE, INSERT or DELETE")
