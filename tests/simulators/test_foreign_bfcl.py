"""Classes of BFCL as environments, tried against the real package."""

import asyncio
import json
import sys

import pytest

from simulators.check import check_environment
from simulators.foreign.bfcl import CLASSES, bfcl_environment, bfcl_kind, bfcl_scenarios
from simulators.foreign.environment import ForeignEnvironment
from synth.core.errors import BadInput, UnknownName

BFCL_CALLS = {
    "GorillaFileSystem": [
        ("mkdir", {"dir_name": "d"}),
        ("touch", {"file_name": "f.txt"}),
        ("echo", {"content": "hello", "file_name": "f.txt"}),
        ("cd", {"folder": "d"}),
        ("touch", {"file_name": "g.txt"}),
        ("ls", {"a": True}),
        ("cd", {"folder": ".."}),
        ("mv", {"source": "f.txt", "destination": "d"}),
        ("cat", {"file_name": "no.txt"}),
    ],
    "MessageAPI": [
        ("list_users", {}),
        ("message_login", {"user_id": "USR001"}),
        ("send_message", {"receiver_id": "USR002", "message": "Hi"}),
        ("add_contact", {"user_name": "Zoe"}),
        ("view_messages_sent", {}),
        ("delete_message", {"receiver_id": "USR002"}),
    ],
    "TicketAPI": [
        ("ticket_login", {"username": "a", "password": "b"}),
        ("create_ticket", {"title": "t", "description": "d", "priority": 2}),
        ("get_ticket", {"ticket_id": 1}),
        ("resolve_ticket", {"ticket_id": 1, "resolution": "r"}),
    ],
    "TradingBot": [
        ("get_stock_info", {"symbol": "AAPL"}),
        ("trading_login", {"username": "a", "password": "b"}),
        ("add_to_watchlist", {"stock": "AAPL"}),
        (
            "place_order",
            {"order_type": "Buy", "symbol": "AAPL", "price": 227.16, "amount": 2},
        ),
        ("fund_account", {"amount": 100.5}),
        ("cancel_order", {"order_id": 1}),
    ],
    "TravelAPI": [
        ("list_all_airports", {}),
        (
            "authenticate_travel",
            {
                "client_id": "c",
                "client_secret": "s",
                "refresh_token": "r",
                "grant_type": "read_write",
                "user_first_name": "A",
                "user_last_name": "B",
            },
        ),
        ("compute_exchange_rate", {"base_currency": "USD", "target_currency": "EUR", "value": 5.0}),
    ],
    "TwitterAPI": [
        ("authenticate_twitter", {"username": "john", "password": "john123"}),
        ("post_tweet", {"content": "x", "tags": ["#a"]}),
        ("follow_user", {"username_to_follow": "zed"}),
        ("get_user_stats", {"username": "john"}),
    ],
    "VehicleControlAPI": [
        ("get_current_speed", {}),
        ("fillFuelTank", {"fuelAmount": 5.0}),
        (
            "lockDoors",
            {"unlock": False, "door": ["driver", "passenger", "rear_left", "rear_right"]},
        ),
        ("pressBrakePedal", {"pedalPosition": 1.0}),
        ("startEngine", {"ignitionMode": "START"}),
        ("get_current_speed", {}),
    ],
}


@pytest.fixture
def bfcl():
    return pytest.importorskip("bfcl_eval", reason="bfcl-eval is not installed")


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class_of_bfcl_keeps_the_contract_of_environments(bfcl, name):
    kind = bfcl_kind(name)
    problems = asyncio.run(check_environment(lambda: ForeignEnvironment(kind), BFCL_CALLS[name]))
    assert problems == []


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_bfcls_own_scenarios_are_states_by_seed(bfcl, name):
    scenarios = bfcl_scenarios(name)
    assert len(scenarios) >= 20

    async def go():
        environment, results = bfcl_environment(name, scenarios), []
        for seed in (0, len(scenarios), 1, 0):
            await environment.reset(seed)
            results.append([await environment.call(*call) for call in BFCL_CALLS[name]])
        return results

    results = asyncio.run(go())
    assert results[0] == results[3]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_schemas_agree_with_bfcls_own_documents(bfcl, name):
    """Names and required parameters are those that BFCL shows to models."""
    from importlib import resources

    path = f"data/multi_turn_func_doc/{CLASSES[name]}.json"
    text = resources.files("bfcl_eval").joinpath(path).read_text(encoding="utf-8")
    theirs = {row["name"]: row["parameters"] for row in map(json.loads, text.splitlines())}
    for tool in bfcl_environment(name).tools():
        want = theirs[tool.name]
        assert set(tool.parameters["properties"]) == set(want["properties"]), tool.name
        assert sorted(tool.parameters["required"]) == sorted(want["required"]), tool.name


def test_a_class_that_bfcl_does_not_have_is_told():
    with pytest.raises(UnknownName, match="did you mean 'TradingBot'"):
        bfcl_kind("TradingBots")


def test_without_bfcl_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "bfcl_eval", None)
    for name in [name for name in sys.modules if name.startswith("bfcl_eval.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(BadInput, match="bfcl-eval"):
        bfcl_kind("TradingBot")
    with pytest.raises(BadInput, match="bfcl-eval"):
        bfcl_scenarios("TradingBot")
