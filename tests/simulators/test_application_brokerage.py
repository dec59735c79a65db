"""What the tools of the broker keep true: cash, positions, what open orders set aside."""

import pytest


@pytest.fixture(name="broker")
def _broker(desk_of):
    return desk_of("brokerage")


def held(environment, account, name="Waterworks Asia"):
    found = environment.done("list_positions", account_id=account, name=name)["result"]
    return [(row["shares"], row["cost"]) for row in found]


def rich_account(environment):
    """Return an account with money that has nothing to do with Waterworks Asia (I13) so far."""
    return environment.one(
        "SELECT id, cash FROM accounts a WHERE cash - (SELECT coalesce(sum(shares * price + fee), "
        "0) FROM orders o WHERE o.account_id = a.id AND o.status = 'open') > 300000 AND NOT EXISTS "
        "(SELECT 1 FROM orders o WHERE o.account_id = a.id AND o.instrument_id = 'I13')",
    )


def test_buying_and_selling_moves_cash_and_shares_and_costs_the_fee(broker):
    account = rich_account(broker)
    trade = {"account_id": account["id"], "instrument_id": "I13"}
    bought = broker.done("place_market_order", **trade, side="buy", shares=400)
    assert (bought["price"], bought["fee"]) == (247, 1000)
    assert bought["cash_after"] == account["cash"] - 400 * 247 - 1000
    assert held(broker, account["id"]) == [(400, 98800)]
    sold = broker.done("place_market_order", **trade, side="sell", shares=100)
    assert sold["cash_after"] == bought["cash_after"] + 100 * 247 - 1000
    assert held(broker, account["id"]) == [(300, 74100)]
    short = broker.refused("place_market_order", **trade, side="sell", shares=400)
    assert short == "insufficient_shares"
    broker.done("place_market_order", **trade, side="sell", shares=300)
    assert held(broker, account["id"]) == []


@pytest.mark.parametrize(
    ("instrument", "shares", "code"), [("I13", 150, "odd_lot"), ("I09", 100, "halted")]
)
def test_only_whole_lots_of_what_is_traded_are_bought(broker, instrument, shares, code):
    account = rich_account(broker)["id"]
    order = {"account_id": account, "side": "buy", "instrument_id": instrument, "shares": shares}
    assert broker.refused("place_market_order", **order) == code


def test_an_open_order_sets_cash_aside_until_it_is_cancelled(broker):
    account = rich_account(broker)["id"]
    before = broker.done("get_account", account_id=account)["available"]
    order = {"account_id": account, "side": "buy", "instrument_id": "I13", "shares": 500}
    limit = {"limit_price": 240, "valid_until": "2026-05-29"}
    assert broker.done("place_limit_order", **order, **limit)["fee"] == 1000
    summed = broker.done("get_account", account_id=account)
    assert summed["available"] == before - 500 * 240 - 1000
    everything = broker.refused("withdraw_cash", account_id=account, amount=before)
    assert everything == "insufficient_cash"
    assert broker.refused("place_limit_order", **order, **limit) == "order_open"
    listed = broker.done("list_orders", account_id=account, status="open")["result"]
    mine = next(row["id"] for row in listed if row["name"] == "Waterworks Asia")
    changed = broker.done("change_limit_order", order_id=mine, limit_price=230)
    assert (changed["price"], changed["valid_until"]) == (230, "2026-05-29")
    broker.done("cancel_orders", account_id=account, order_ids=[mine])
    assert broker.done("get_account", account_id=account)["available"] == before
    assert broker.refused("change_limit_order", order_id=mine, limit_price=220) == "not_open"


def test_moved_cash_leaves_one_account_and_reaches_the_other(broker):
    pair = broker.one(
        "SELECT a.id AS giver, b.id AS taker, a.cash AS before, b.cash AS other FROM accounts a "
        "JOIN accounts b ON b.client_id = a.client_id AND b.id <> a.id WHERE a.cash - "
        "(SELECT coalesce(sum(shares * price + fee), 0) FROM orders o WHERE o.account_id = a.id "
        "AND o.status = 'open') > 5000",
    )
    move = {"source_account_id": pair["giver"], "target_account_id": pair["taker"]}
    moved = broker.done("move_cash", **move, amount=5000)["result"]
    cash = {row["id"]: row["cash"] for row in moved}
    assert cash == {pair["giver"]: pair["before"] - 5000, pair["taker"]: pair["other"] + 5000}
    far = broker.one(
        "SELECT id FROM accounts WHERE client_id <> (SELECT client_id FROM accounts WHERE id = :g)",
        g=pair["giver"],
    )["id"]
    foreign = {"source_account_id": pair["giver"], "target_account_id": far, "amount": 100}
    assert broker.refused("move_cash", **foreign) == "other_client"


def test_a_watch_list_shows_each_instrument_once_with_its_alert(broker):
    client = broker.one("SELECT id FROM clients")["id"]
    listing = {"client_id": client, "name": "Harbour life", "instrument_ids": ["I12", "I01"]}
    made = broker.done("create_watch_list", **listing)
    assert made["instruments"] == 2
    assert broker.refused("create_watch_list", **listing) == "name_taken"
    more = {"watch_list_id": made["id"], "instrument_ids": ["I12"]}
    assert broker.refused("add_to_watch_list", **more) == "already_watched"
    items = broker.done("list_watch_items", watch_list_id=made["id"])["result"]
    assert [row["name"] for row in items] == ["Harbour Terminals", "Marina Shipyards"]
    broker.done("set_price_alert", watch_item_id=items[0]["id"], alert_price=480)
    broker.done(
        "remove_from_watch_list",
        watch_list_id=made["id"],
        watch_item_ids=[items[1]["id"]],
    )
    left = broker.done("list_watch_items", watch_list_id=made["id"])["result"]
    assert [(row["name"], row["alert_price"]) for row in left] == [("Harbour Terminals", 480)]
