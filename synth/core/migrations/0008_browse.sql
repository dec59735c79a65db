-- Macros for people who open this file with DuckDB alone: ranked search, likes of a tool, and what
-- came of what. `SELECT tool, score FROM search('send an e-mail') WHERE effect = 'write' LIMIT 10`

-- A lower-case word in search form: plural s cut, `-y` and `-ies` made equal. The same as
-- `tool_registry.search`, which a test holds.
CREATE MACRO search_stem(word) AS
    CASE WHEN length(word) > 3 THEN regexp_replace(word, '([^aeiou])(?:ie|y)\z', '\1i') ELSE word END;
CREATE MACRO search_form(word) AS search_stem(
    CASE WHEN length(word) > 3 AND suffix(word, 's') AND NOT suffix(word, 'ss')
    THEN left(word, length(word) - 1) ELSE word END);

-- The different search words of a text: camelCase split, lower case, without words like `the`.
CREATE MACRO search_terms(text) AS list_distinct(list_transform(list_filter(list_transform(
    regexp_extract_all(
        regexp_replace(
            regexp_replace(text, '(?i)\be-mail', 'email', 'g'),
            '([A-Z]+)([A-Z][a-z])', '\1 \2', 'g'),
        '[A-Z]?[a-z]+|[A-Z]+|\p{Nd}+|[^\x00-\x7F\p{P}\p{S}\p{Z}\p{M}\p{C}\p{Nd}]+'),
    lambda found: lower(found)),
    lambda word: length(word) <= 40 AND word NOT IN (
        'a', 'an', 'and', 'are', 'as', 'at', 'be', 'by', 'can', 'do', 'does', 'for', 'from', 'had', 'has',
        'have', 'how', 'i', 'in', 'into', 'is', 'it', 'its', 'me', 'my', 'of', 'on', 'or', 'that', 'the',
        'this', 'to', 'was', 'we', 'what', 'when', 'where', 'which', 'who', 'will', 'with', 'you',
        'your')),
    lambda word: search_form(word)));

-- What was indexed before words had this form.
UPDATE search_words SET word = search_stem(word) WHERE search_stem(word) <> word;

-- Listed tools that have one of the terms, ranked by BM25 (k1 = 1.2, b = 0.75).
CREATE MACRO ranked(terms) AS TABLE
WITH hits AS MATERIALIZED (
    SELECT word, doc, times, length FROM search_words WHERE word IN (SELECT unnest(terms))
),
corpus AS (SELECT count(*) AS n, avg(words) AS mean FROM search_tools),
weights AS (
    SELECT word, 2.2 * ln(1 + (n - count(*) + 0.5) / (count(*) + 0.5)) AS weight, 0.9 / mean AS slope
    FROM hits CROSS JOIN corpus GROUP BY word, n, mean
),
best AS (
    SELECT doc, round(sum(weight * times / (times + 0.3 + slope * length)), 9) AS score
    FROM hits JOIN weights USING (word) GROUP BY doc
)
SELECT tool, doc, score FROM best JOIN search_tools USING (doc);

-- Tools for a few words, best first. Filter with WHERE, cut with LIMIT.
CREATE MACRO search(query) AS TABLE
SELECT c.*, r.score FROM ranked(search_terms(query)) r JOIN catalogue c USING (tool)
ORDER BY r.score DESC, r.doc;

-- Tools most like one (`server/name`), by its most telling words; a copy of it scores 1.
CREATE MACRO similar_to(which) AS TABLE
WITH own AS (SELECT doc FROM search_tools WHERE tool = which),
telling AS (
    SELECT w.word FROM search_words w JOIN own USING (doc) JOIN (
        SELECT word, count(*) AS spread FROM search_words
        WHERE word IN (SELECT word FROM search_words JOIN own USING (doc)) GROUP BY word
    ) USING (word)
    ORDER BY w.times / (w.times + 1.2) * ln(1 + (SELECT count(*) FROM search_tools) / spread) DESC, 1
    LIMIT 24
),
found AS MATERIALIZED (FROM ranked((SELECT list(word) FROM telling)))
SELECT c.*, round(f.score / (SELECT score FROM found WHERE tool = which), 4) AS score
FROM found f JOIN catalogue c USING (tool) WHERE tool <> which
ORDER BY f.score DESC, f.doc;

-- What came of a server, a tool, a run, an episode, an export or a checkpoint, and whence it came.
CREATE MACRO lineage(which) AS TABLE
SELECT * FROM tool_usage
WHERE which IN (server, tool, run, episode, export, training, checkpoint)
ORDER BY server, tool, version, run, episode, export, row, checkpoint;
