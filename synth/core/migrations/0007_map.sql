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
    cell       VARCHAR NOT NULL,
    neighbour  VARCHAR,                -- the nearest tool of another server
    distance   DOUBLE                  -- to it, in the space that the map was fitted on
);

CREATE OR REPLACE VIEW catalogue AS
SELECT t.tool, t.server, t.name, t.function_name, t.application, t.category, t.category_source,
       v.effect, v.effect_source, v.description, v.language, v.quality, v.quality_reasons,
       t.version, v.package_version, s.licence, t.listed, v.flags
FROM tools t JOIN tool_versions v USING (tool, version) LEFT JOIN servers s USING (server);
