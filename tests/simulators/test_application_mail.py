"""The help desk of a mailbox service: what its writes do, and what they refuse."""

import pytest


@pytest.fixture(name="mail")
def _mail(desk_of):
    return desk_of("mail", 1)


def test_only_what_lies_in_the_trash_is_deleted_and_frees_its_storage(mail):
    message = mail.one(
        "SELECT m.id, m.size_kb, b.used_kb, b.email, f.id AS trash FROM messages m "
        "JOIN mailboxes b ON b.id = m.mailbox_id JOIN folders f ON f.mailbox_id = b.id "
        "WHERE f.name = 'Trash' AND m.folder_id <> f.id ORDER BY m.id",
    )
    assert mail.refused("delete_messages", message_ids=[message["id"]]) == "not_in_trash"
    mail.done("move_messages", message_ids=[message["id"]], folder_id=message["trash"])
    freed = mail.done("delete_messages", message_ids=[message["id"]])
    assert freed == {
        "freed_kb": message["size_kb"],
        "used_kb": message["used_kb"] - message["size_kb"],
    }
    assert mail.done("find_mailbox", email=message["email"])["used_kb"] == freed["used_kb"]
    assert mail.refused("get_message", message_id=message["id"]) == "not_found"


def test_a_draft_sent_at_once_lies_in_sent_and_one_for_later_does_not(mail):
    now, later = mail.query(
        "SELECT d.id, d.mailbox_id, d.subject FROM drafts d JOIN contacts k ON k.id = d.contact_id "
        "JOIN mailboxes b ON b.id = d.mailbox_id WHERE d.status = 'draft' AND NOT k.blocked "
        "AND b.used_kb < 900000 ORDER BY d.id LIMIT 2",
        {},
    )
    sent = mail.done("send_draft", draft_id=now["id"])
    assert (sent["status"], sent["send_on"]) == ("sent", None)
    planned = mail.done("send_draft", draft_id=later["id"], send_on="2026-10-20")
    assert (planned["status"], planned["send_on"]) == ("scheduled", "2026-10-20")
    for draft, count in ((now, 1), (later, 0)):
        folder = mail.one(
            "SELECT id FROM folders WHERE mailbox_id = :mailbox AND name = 'Sent'",
            mailbox=draft["mailbox_id"],
        )
        listed = mail.done(
            "search_messages", mailbox_id=draft["mailbox_id"], folder_id=folder["id"]
        )
        assert [row["subject"] for row in listed["result"]].count(draft["subject"]) == count
    assert mail.refused("send_draft", draft_id=now["id"]) == "not_a_draft"


def test_a_plan_is_paid_from_the_credit_and_must_hold_what_is_stored(mail):
    box = mail.one(
        "SELECT id, email, credit FROM mailboxes WHERE plan_id = 'N1' AND credit > 1500",
    )
    assert mail.done("change_plan", mailbox_id=box["id"], plan_id="N4")["credit"] == (
        box["credit"] - 1499
    )
    assert mail.done("find_mailbox", email=box["email"])["plan"] == "Clipper"
    large = mail.one("SELECT id FROM mailboxes WHERE used_kb > 1000000 ORDER BY id")
    assert mail.refused("change_plan", mailbox_id=large["id"], plan_id="N1") == "too_much_stored"


def test_ending_a_newsletter_moves_its_issues_to_the_trash_only_when_asked(mail):
    for trash in (True, False):
        mail.reset(1)
        issue = mail.one(
            "SELECT s.id, m.id AS message, f.name AS folder FROM subscriptions s "
            "JOIN messages m ON m.mailbox_id = s.mailbox_id AND m.sender = s.sender "
            "JOIN folders f ON f.id = m.folder_id WHERE s.status = 'active' "
            "AND f.name <> 'Trash' ORDER BY s.id",
        )
        ended = mail.done("end_newsletters", subscription_ids=[issue["id"]], trash_old=trash)
        assert [row["status"] for row in ended["result"]] == ["ended"]
        after = mail.done("get_message", message_id=issue["message"])["folder"]
        assert after == ("Trash" if trash else issue["folder"])
