-- For people. `SELECT * FROM tool_usage WHERE tool = '...' AND version = 2` says which rows and
-- which model used version 2 of a tool; `SELECT * FROM row_origin WHERE episode = '...'` says from
-- which server a row came.

CREATE VIEW catalogue AS
SELECT t.tool, t.server, t.name, t.function_name, t.category, v.effect, v.description,
       t.version, v.package_version, t.listed, v.flags
FROM tools t JOIN tool_versions v USING (tool, version);

CREATE VIEW last_crawls AS
SELECT * FROM crawls QUALIFY row_number() OVER (PARTITION BY server ORDER BY started_at DESC) = 1;

CREATE VIEW changes AS
SELECT v.tool, v.version, v.seen_at, v.package_version, p.package_version AS previous_package,
       v.description_hash <> p.description_hash AS description_changed,
       v.semantic_hash <> p.semantic_hash AS schema_changed,
       coalesce(v.package_version = p.package_version, v.package_version IS NULL) AS in_place,
       p.description AS previous_description, v.description
FROM tool_versions v JOIN tool_versions p ON p.tool = v.tool AND p.version = v.version - 1;

CREATE VIEW row_origin AS
SELECT e.run, e.episode, s.name, t.tool, v.version, t.server, v.package_version, v.crawl,
       count(s.position) AS calls, d.passed
FROM episodes e
JOIN agent_tools a ON a.agent = e.agent
JOIN run_tools r ON r.run = e.run AND r.application = e.world AND r.name = a.name
JOIN tool_versions v ON v.spec = r.spec
JOIN tools t ON t.tool = v.tool
LEFT JOIN steps s ON s.run = e.run AND s.episode = e.episode AND s.name = a.name
LEFT JOIN verdicts d ON d.run = e.run AND d.episode = e.episode
GROUP BY ALL;

CREATE VIEW tool_usage AS
SELECT o.tool, o.version, o.server, o.run, o.episode, o.calls, o.passed, x.export, x.row,
       m.training, m.model AS base_model, c.checkpoint
FROM row_origin o
LEFT JOIN export_rows x ON x.run = o.run AND x.episode = o.episode
LEFT JOIN training_runs m ON m.export = x.export
LEFT JOIN checkpoints c ON c.training = m.training;

CREATE VIEW funnel AS
SELECT e.run, e.world, e.kind, count(*) AS episodes, count(*) FILTER (d.passed) AS passed,
       count(*) FILTER (d.passed IS FALSE) AS failed,
       count(*) FILTER (d.passed IS NULL) AS not_judged
FROM episodes e LEFT JOIN verdicts d ON d.run = e.run AND d.episode = e.episode
GROUP BY ALL;
