-- How good a definition is, what a tool is for, which tools are nearly the same, and where they lie.

ALTER TABLE tool_versions ADD COLUMN quality DOUBLE;          -- 0 to 1; NULL: not measured yet
ALTER TABLE tool_versions ADD COLUMN quality_reasons JSON;    -- what it lacks, in words
ALTER TABLE tools ADD COLUMN category_source VARCHAR;         -- declared, inferred
ALTER TABLE tools ADD COLUMN category_score DOUBLE;           -- 0 to 1, where it is inferred
UPDATE tools SET category_source = 'declared' WHERE category IS NOT NULL;

-- Listed tools that say nearly the same, across servers; computed by `toolloom registry map`.
CREATE TABLE near_duplicates (
    tool        VARCHAR PRIMARY KEY,
    cluster     VARCHAR NOT NULL,      -- the tool of it that was seen first
    similarity  DOUBLE NOT NULL        -- to that tool, 0 to 1
);

-- The map: one place for each listed tool, fitted once on the union of real and synthetic ones.
CREATE TABLE map_points (
    tool       VARCHAR PRIMARY KEY,
    x          DOUBLE NOT NULL,
    y          DOUBLE NOT NULL,
    neighbour  VARCHAR,                -- the nearest tool of the other kind: real, synthetic
    distance   DOUBLE                  -- to it: 1 less the cosine of their words, 0 to 1
);

CREATE OR REPLACE VIEW catalogue AS
SELECT t.tool, t.server, t.name, t.function_name, t.application, t.category, t.category_source,
       v.effect, v.effect_source, v.description, v.language, v.quality, v.quality_reasons,
       t.version, v.package_version, s.licence, t.listed, v.flags
FROM tools t JOIN tool_versions v USING (tool, version) LEFT JOIN servers s USING (server);

-- Cells of category and effect: where real and synthetic tools are, and how far from one another.
CREATE VIEW coverage AS
SELECT g.category, g.effect,
       count(c.tool) FILTER (c.application IS NULL) AS real,
       count(c.tool) FILTER (c.application IS NOT NULL) AS synthetic,
       median(m.distance) FILTER (c.application IS NULL) AS real_to_synthetic,
       median(m.distance) FILTER (c.application IS NOT NULL) AS synthetic_to_real
FROM (SELECT category, unnest(['read', 'write', 'destructive']) AS effect FROM categories) g
LEFT JOIN catalogue c ON c.listed AND c.category = g.category AND c.effect = g.effect
LEFT JOIN map_points m ON m.tool = c.tool
GROUP BY g.category, g.effect;
