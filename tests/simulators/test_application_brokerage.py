"""What the tools of the broker keep true: cash, positions, what open orders set aside."""

import json

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application

_engines = {}


def desk(seed=0):
    if not _engines:
        _engines["brokerage"] = Engine(load_application("brokerage"))
    environment = _engines["brokerage"].environment()
    environment.reset_now(seed)
    return environment


def one(environment, sql, **values):
    return environment.query(f"{sql} LIMIT 1", values)[0]


def done(environment, tool, **arguments):
    result = environment.call_now(tool, arguments)
    assert result.ok, result.content
    return json.loads(result.content)


def refused(environment, tool, **arguments):
    result = environment.call_now(tool, arguments)
    assert not result.ok
    return result.error.code


def held(environment, account, name="Waterworks Asia"):
    found = done(environment, "list_positions", account_id=account, name=name)["result"]
    return [(row["shares"], row["cost"]) for row in found]


def rich_account(environment):
    """Return an account with money that has nothing to do with Waterworks Asia (I13) so far."""
    return one(
        environment,
        "SELECT id, cash FROM accounts a WHERE cash - (SELECT coalesce(sum(shares * price + fee), "
        "0) FROM orders o WHERE o.account_id = a.id AND o.status = 'open') > 300000 AND NOT EXISTS "
        "(SELECT 1 FROM orders o WHERE o.account_id = a.id AND o.instrument_id = 'I13')",
    )


def test_buying_and_selling_moves_cash_and_shares_and_costs_the_fee():
    broker = desk()
    account = rich_account(broker)
    trade = {"account_id": account["id"], "instrument_id": "I13"}
    bought = done(broker, "place_market_order", **trade, side="buy", shares=400)
    assert (bought["price"], bought["fee"]) == (247, 1000)
    assert bought["cash_after"] == account["cash"] - 400 * 247 - 1000
    assert held(broker, account["id"]) == [(400, 98800)]
    sold = done(broker, "place_market_order", **trade, side="sell", shares=100)
    assert sold["cash_after"] == bought["cash_after"] + 100 * 247 - 1000
    assert held(broker, account["id"]) == [(300, 74100)]
    short = refused(broker, "place_market_order", **trade, side="sell", shares=400)
    assert short == "insufficient_shares"
    done(broker, "place_market_order", **trade, side="sell", shares=300)
    assert held(broker, account["id"]) == []


@pytest.mark.parametrize(
    ("instrument", "shares", "code"), [("I13", 150, "odd_lot"), ("I09", 100, "halted")]
)
def test_only_whole_lots_of_what_is_traded_are_bought(instrument, shares, code):
    broker = desk()
    account = rich_account(broker)["id"]
    order = {"account_id": account, "side": "buy", "instrument_id": instrument, "shares": shares}
    assert refused(broker, "place_market_order", **order) == code


def test_an_open_order_sets_cash_aside_until_it_is_cancelled():
    broker = desk()
    account = rich_account(broker)["id"]
    before = done(broker, "get_account", account_id=account)["available"]
    order = {"account_id": account, "side": "buy", "instrument_id": "I13", "shares": 500}
    limit = {"limit_price": 240, "valid_until": "2026-05-29"}
    assert done(broker, "place_limit_order", **order, **limit)["fee"] == 1000
    summed = done(broker, "get_account", account_id=account)
    assert summed["available"] == before - 500 * 240 - 1000
    everything = refused(broker, "withdraw_cash", account_id=account, amount=before)
    assert everything == "insufficient_cash"
    assert refused(broker, "place_limit_order", **order, **limit) == "order_open"
    listed = done(broker, "list_orders", account_id=account, status="open")["result"]
    mine = next(row["id"] for row in listed if row["name"] == "Waterworks Asia")
    changed = done(broker, "change_limit_order", order_id=mine, limit_price=230)
    assert (changed["price"], changed["valid_until"]) == (230, "2026-05-29")
    done(broker, "cancel_orders", account_id=account, order_ids=[mine])
    assert done(broker, "get_account", account_id=account)["available"] == before
    assert refused(broker, "change_limit_order", order_id=mine, limit_price=220) == "not_open"


def test_moved_cash_leaves_one_account_and_reaches_the_other():
    broker = desk()
    pair = one(
        broker,
        "SELECT a.id AS giver, b.id AS taker, a.cash AS before, b.cash AS other FROM accounts a "
        "JOIN accounts b ON b.client_id = a.client_id AND b.id <> a.id WHERE a.cash - "
        "(SELECT coalesce(sum(shares * price + fee), 0) FROM orders o WHERE o.account_id = a.id "
        "AND o.status = 'open') > 5000",
    )
    move = {"source_account_id": pair["giver"], "target_account_id": pair["taker"]}
    moved = done(broker, "move_cash", **move, amount=5000)["result"]
    cash = {row["id"]: row["cash"] for row in moved}
    assert cash == {pair["giver"]: pair["before"] - 5000, pair["taker"]: pair["other"] + 5000}
    far = one(
        broker,
        "SELECT id FROM accounts WHERE client_id <> (SELECT client_id FROM accounts WHERE id = :g)",
        g=pair["giver"],
    )["id"]
    foreign = {"source_account_id": pair["giver"], "target_account_id": far, "amount": 100}
    assert refused(broker, "move_cash", **foreign) == "other_client"


def test_a_watch_list_shows_each_instrument_once_with_its_alert():
    broker = desk()
    client = one(broker, "SELECT id FROM clients")["id"]
    listing = {"client_id": client, "name": "Harbour life", "instrument_ids": ["I12", "I01"]}
    made = done(broker, "create_watch_list", **listing)
    assert made["instruments"] == 2
    assert refused(broker, "create_watch_list", **listing) == "name_taken"
    more = {"watch_list_id": made["id"], "instrument_ids": ["I12"]}
    assert refused(broker, "add_to_watch_list", **more) == "already_watched"
    items = done(broker, "list_watch_items", watch_list_id=made["id"])["result"]
    assert [row["name"] for row in items] == ["Harbour Terminals", "Marina Shipyards"]
    done(broker, "set_price_alert", watch_item_id=items[0]["id"], alert_price=480)
    done(
        broker,
        "remove_from_watch_list",
        watch_list_id=made["id"],
        watch_item_ids=[items[1]["id"]],
    )
    left = done(broker, "list_watch_items", watch_list_id=made["id"])["result"]
    assert [(row["name"], row["alert_price"]) for row in left] == [("Harbour Terminals", 480)]
