-- A tool, a server or an application is not to be trusted: which episodes and exported rows have it, and what was
-- trained on them. `how`: `called`, `shown` (stands in the prompt) or `descended` (of an application evolved from it).
CREATE MACRO affected(which) AS TABLE
WITH RECURSIVE doubted AS (
    SELECT tool, server FROM tools WHERE which IN (tool, server) OR server = 'application:' || which
),
descended(server) AS (
    SELECT server FROM doubted UNION SELECT which UNION SELECT 'application:' || which
    UNION  -- what a model wrote that was shown the tool
    SELECT 'application:' || a.application FROM doubted t JOIN ancestry a ON list_contains(a.parents, t.tool)
    UNION
    SELECT 'application:' || a.application
    FROM descended d JOIN ancestry a ON list_contains(a.parents, substr(d.server, length('application:') + 1))
    WHERE starts_with(d.server, 'application:')
),
found AS (
    SELECT u.*, CASE WHEN d.tool IS NULL THEN 'descended' WHEN u.calls > 0 THEN 'called' ELSE 'shown' END AS how
    FROM tool_usage u LEFT JOIN doubted d USING (tool)
    WHERE d.tool IS NOT NULL OR u.server IN (
        SELECT server FROM descended EXCEPT SELECT server FROM doubted
    )
)
SELECT run, episode, export, row, min(how) AS how, list_sort(list(DISTINCT tool)) AS tools, training, checkpoint
FROM found GROUP BY run, episode, export, row, training, checkpoint
ORDER BY run, episode, export, row, checkpoint;
