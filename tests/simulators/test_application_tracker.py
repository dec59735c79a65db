"""What the tools of the issue tracker keep true: blockers, capacity, minutes and numbers."""

import pytest


@pytest.fixture(name="tracker")
def _tracker(desk_of):
    return desk_of("tracker")


def new_issue(environment, title, points=1):
    return environment.done(
        "create_issue",
        project_id="P01",
        kind="feature",
        title=title,
        priority="high",
        points=points,
    )


def test_new_issues_are_numbered_one_after_the_other_within_their_project(tracker):
    first, second = (new_issue(tracker, title) for title in ("Buoy lamps", "Tide tables"))
    before = tracker.one("SELECT count(*) AS n FROM issues WHERE project_id = 'P01'")["n"] - 2
    assert (first["number"], second["number"]) == (f"HELM-{101 + before}", f"HELM-{102 + before}")
    found = tracker.done("search_issues", number=second["number"].lower())["result"]
    assert [row["title"] for row in found] == ["Tide tables"]
    again = {"kind": "bug", "title": "tide TABLES", "priority": "low", "points": 1}
    assert tracker.refused("create_issue", project_id="P01", **again) == "duplicate_title"
    assert tracker.refused("create_issue", project_id="P07", **again) == "project_archived"


def test_an_issue_is_done_only_after_what_it_waits_for(tracker):
    waits, first = (new_issue(tracker, title)["id"] for title in ("Harbour map", "Chart format"))
    tracker.done("add_blocker", issue_id=waits, blocker_id=first)
    assert tracker.refused("add_blocker", issue_id=first, blocker_id=waits) == "already_linked"
    assert tracker.refused("set_status", issue_id=waits, status="done") == "still_blocked"
    assert tracker.done("set_status", issue_id=first, status="done")["closed"] == "2026-02-11"
    tracker.done("set_status", issue_id=waits, status="done")
    assert tracker.refused("set_status", issue_id=first, status="open") == "others_relied_on_it"


def test_a_removed_blocker_no_longer_holds_an_issue_back(tracker):
    waits, first = (new_issue(tracker, title)["id"] for title in ("Harbour map", "Chart format"))
    tracker.done("add_blocker", issue_id=waits, blocker_id=first)
    left = tracker.done("remove_blocker", issue_id=waits, blocker_id=first)
    assert left == {"blockers_left": 0}
    assert tracker.refused("remove_blocker", issue_id=waits, blocker_id=first) == "not_blocked"
    assert tracker.done("set_status", issue_id=waits, status="done")["status"] == "done"


def test_a_sprint_takes_issues_up_to_its_capacity(tracker):
    sprint = tracker.one(
        "SELECT s.id, s.capacity - coalesce((SELECT sum(points) FROM issues WHERE sprint_id = s.id)"
        ", 0) AS room FROM sprints s WHERE s.project_id = 'P01' AND s.status = 'planned' "
        "ORDER BY room",
    )
    issues = [new_issue(tracker, f"Step {n}")["id"] for n in range(sprint["room"] + 1)]
    for issue in issues[:-1]:
        tracker.done("plan_issues", sprint_id=sprint["id"], issue_ids=[issue])
    full = tracker.refused("plan_issues", sprint_id=sprint["id"], issue_ids=issues[-1:])
    assert full == "sprint_full"
    assert tracker.refused("update_issue", issue_id=issues[0], points=2) == "sprint_full"
    again = tracker.refused("plan_issues", sprint_id=sprint["id"], issue_ids=issues[:1])
    assert again == "done_or_planned"


def test_logged_minutes_add_up_on_the_issue(tracker):
    work = tracker.one(
        "SELECT m.person_id, i.id AS issue_id, i.minutes_spent FROM issues i JOIN memberships m "
        "ON m.project_id = i.project_id WHERE m.role = 'developer' AND i.status = 'open'",
    )
    spent = work.pop("minutes_spent")
    for minutes in (45, 30):
        logged = tracker.done("log_work", **work, minutes=minutes, day="2026-02-10")
    assert logged["minutes_spent"] == spent + 75
    shown = tracker.done("get_issue", issue_id=work["issue_id"])
    assert shown["minutes_spent"] == spent + 75
    assert tracker.refused("log_work", **work, minutes=5, day="2026-02-12") == "day_in_future"


def test_only_members_who_work_on_a_project_are_assigned(tracker):
    issue = new_issue(tracker, "Anchor icon")["id"]
    members = tracker.done("list_members", project_id="P01")["result"]
    roles = {row["role"]: row["id"] for row in members}
    reader = tracker.refused(
        "assign_issues", project_id="P01", issue_ids=[issue], assignee_id=roles["reader"]
    )
    assert reader == "cannot_be_assigned"
    tracker.done(
        "assign_issues",
        project_id="P01",
        issue_ids=[issue],
        assignee_id=roles["developer"],
    )
    name = next(row["name"] for row in members if row["id"] == roles["developer"])
    assert tracker.done("get_issue", issue_id=issue)["assignee"] == name
