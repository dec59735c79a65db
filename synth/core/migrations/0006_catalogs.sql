-- Lists that are written down already, what is odd about them, and a search that scales.

ALTER TABLE crawls ADD COLUMN content VARCHAR;  -- hash of what a catalog said; NULL when a server was asked
ALTER TABLE tool_versions ADD COLUMN language VARCHAR;  -- of the description: en, zh, …; und

-- The words of the current definition of each listed tool, mostly sorted, so that a search reads few
-- blocks. The length of a tool's text stands beside each word, and what is shown of a tool beside its
-- number: each saves a join that costs as much as the search.
CREATE TABLE earlier_words AS SELECT * FROM search_words;
DROP TABLE search_words;
DROP TABLE search_tools;
CREATE TABLE search_tools (
    doc            INTEGER PRIMARY KEY,
    tool           VARCHAR NOT NULL,
    words          INTEGER NOT NULL,   -- length of its text
    server         VARCHAR NOT NULL,
    name           VARCHAR NOT NULL,
    function_name  VARCHAR NOT NULL,
    effect         VARCHAR NOT NULL,
    description    VARCHAR NOT NULL
);
CREATE TABLE search_words (
    word    VARCHAR NOT NULL,
    doc     INTEGER NOT NULL,
    times   INTEGER NOT NULL,
    length  INTEGER NOT NULL           -- of the tool's text
);
INSERT INTO search_tools
SELECT row_number() OVER (ORDER BY tool) - 1, tool, sum(w.times), any_value(c.server),
       any_value(c.name), any_value(c.function_name), any_value(c.effect), any_value(c.description)
FROM earlier_words w JOIN catalogue c USING (tool) WHERE c.listed GROUP BY tool;
INSERT INTO search_words
SELECT w.word, s.doc, w.times, s.words
FROM earlier_words w JOIN search_tools s USING (tool) ORDER BY w.word, s.doc;
DROP TABLE earlier_words;

CREATE OR REPLACE VIEW catalogue AS
SELECT t.tool, t.server, t.name, t.function_name, t.category, v.effect, v.effect_source,
       v.description, v.language, t.version, v.package_version, s.licence, t.listed, v.flags
FROM tools t JOIN tool_versions v USING (tool, version) LEFT JOIN servers s USING (server);

-- Tools of several servers that mean the same and read the same, whatever their formatting.
CREATE VIEW duplicates AS
SELECT left(v.semantic_hash, 12) || left(v.description_hash, 12) AS cluster, t.tool, t.server,
       count(*) OVER same AS members,
       row_number() OVER (same ORDER BY t.first_seen, t.tool) = 1 AS first
FROM tools t JOIN tool_versions v USING (tool, version)
WHERE t.listed
WINDOW same AS (PARTITION BY v.semantic_hash, v.description_hash)
QUALIFY members > 1;

-- What a person should read before a model does: words meant for a model, characters that nobody
-- sees. Nothing is dropped for it.
CREATE VIEW review_queue AS
SELECT t.tool, t.server, t.version,
       list_intersect(CAST(v.flags AS VARCHAR[]),
           ['suspicious', 'invisible', 'control', 'ansi', 'bad_unicode']) AS reasons,
       v.description, v.raw
FROM tools t JOIN tool_versions v USING (tool, version)
WHERE t.listed AND len(reasons) > 0;
