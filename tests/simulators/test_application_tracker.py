"""What the tools of the issue tracker keep true: blockers, capacity, minutes and numbers."""

import json

from simulators.sql.engine import Engine
from simulators.sql.load import load_application

_engines = {}


def desk(seed=0):
    if not _engines:
        _engines["tracker"] = Engine(load_application("tracker"))
    environment = _engines["tracker"].environment()
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


def new_issue(environment, title, points=1):
    return done(
        environment,
        "create_issue",
        project_id="P01",
        kind="feature",
        title=title,
        priority="high",
        points=points,
    )


def test_new_issues_are_numbered_one_after_the_other_within_their_project():
    tracker = desk()
    first, second = (new_issue(tracker, title) for title in ("Buoy lamps", "Tide tables"))
    before = one(tracker, "SELECT count(*) AS n FROM issues WHERE project_id = 'P01'")["n"] - 2
    assert (first["number"], second["number"]) == (f"HELM-{101 + before}", f"HELM-{102 + before}")
    found = done(tracker, "search_issues", number=second["number"].lower())["result"]
    assert [row["title"] for row in found] == ["Tide tables"]
    again = {"kind": "bug", "title": "tide TABLES", "priority": "low", "points": 1}
    assert refused(tracker, "create_issue", project_id="P01", **again) == "duplicate_title"
    assert refused(tracker, "create_issue", project_id="P07", **again) == "project_archived"


def test_an_issue_is_done_only_after_what_it_waits_for():
    tracker = desk()
    waits, first = (new_issue(tracker, title)["id"] for title in ("Harbour map", "Chart format"))
    done(tracker, "add_blocker", issue_id=waits, blocker_id=first)
    assert refused(tracker, "add_blocker", issue_id=first, blocker_id=waits) == "already_linked"
    assert refused(tracker, "set_status", issue_id=waits, status="done") == "still_blocked"
    assert done(tracker, "set_status", issue_id=first, status="done")["closed"] == "2026-02-11"
    done(tracker, "set_status", issue_id=waits, status="done")
    assert refused(tracker, "set_status", issue_id=first, status="open") == "others_relied_on_it"


def test_a_removed_blocker_no_longer_holds_an_issue_back():
    tracker = desk()
    waits, first = (new_issue(tracker, title)["id"] for title in ("Harbour map", "Chart format"))
    done(tracker, "add_blocker", issue_id=waits, blocker_id=first)
    left = done(tracker, "remove_blocker", issue_id=waits, blocker_id=first)
    assert left == {"blockers_left": 0}
    assert refused(tracker, "remove_blocker", issue_id=waits, blocker_id=first) == "not_blocked"
    assert done(tracker, "set_status", issue_id=waits, status="done")["status"] == "done"


def test_a_sprint_takes_issues_up_to_its_capacity():
    tracker = desk()
    sprint = one(
        tracker,
        "SELECT s.id, s.capacity - coalesce((SELECT sum(points) FROM issues WHERE sprint_id = s.id)"
        ", 0) AS room FROM sprints s WHERE s.project_id = 'P01' AND s.status = 'planned' "
        "ORDER BY room",
    )
    issues = [new_issue(tracker, f"Step {n}")["id"] for n in range(sprint["room"] + 1)]
    for issue in issues[:-1]:
        done(tracker, "plan_issues", sprint_id=sprint["id"], issue_ids=[issue])
    full = refused(tracker, "plan_issues", sprint_id=sprint["id"], issue_ids=issues[-1:])
    assert full == "sprint_full"
    assert refused(tracker, "update_issue", issue_id=issues[0], points=2) == "sprint_full"
    again = refused(tracker, "plan_issues", sprint_id=sprint["id"], issue_ids=issues[:1])
    assert again == "done_or_planned"


def test_logged_minutes_add_up_on_the_issue():
    tracker = desk()
    work = one(
        tracker,
        "SELECT m.person_id, i.id AS issue_id, i.minutes_spent FROM issues i JOIN memberships m "
        "ON m.project_id = i.project_id WHERE m.role = 'developer' AND i.status = 'open'",
    )
    spent = work.pop("minutes_spent")
    for minutes in (45, 30):
        logged = done(tracker, "log_work", **work, minutes=minutes, day="2026-02-10")
    assert logged["minutes_spent"] == spent + 75
    shown = done(tracker, "get_issue", issue_id=work["issue_id"])
    assert shown["minutes_spent"] == spent + 75
    assert refused(tracker, "log_work", **work, minutes=5, day="2026-02-12") == "day_in_future"


def test_only_members_who_work_on_a_project_are_assigned():
    tracker = desk()
    issue = new_issue(tracker, "Anchor icon")["id"]
    members = done(tracker, "list_members", project_id="P01")["result"]
    roles = {row["role"]: row["id"] for row in members}
    reader = refused(
        tracker, "assign_issues", project_id="P01", issue_ids=[issue], assignee_id=roles["reader"]
    )
    assert reader == "cannot_be_assigned"
    done(
        tracker,
        "assign_issues",
        project_id="P01",
        issue_ids=[issue],
        assignee_id=roles["developer"],
    )
    name = next(row["name"] for row in members if row["id"] == roles["developer"])
    assert done(tracker, "get_issue", issue_id=issue)["assignee"] == name
