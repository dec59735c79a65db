-- How each evolved application came about: what was done, step by step, to which application.

CREATE TABLE ancestry (
    application  VARCHAR NOT NULL,
    step         INTEGER NOT NULL,     -- from 0; step 0 is `compose` where nothing was there before
    operator     VARCHAR NOT NULL,
    kind         VARCHAR NOT NULL,     -- constrain, deepen, concretise, steps, input, breadth
    words        VARCHAR NOT NULL,     -- what became new
    tools        VARCHAR[] NOT NULL,   -- names of the tools that are new or changed by the step
    parents      VARCHAR[] NOT NULL,   -- applications it was made from; empty: composed
    generation   INTEGER NOT NULL,     -- steps of evolution away from what was written or composed
    seed         BIGINT NOT NULL,
    model        VARCHAR,              -- NULL: no model was asked
    prompt       VARCHAR,              -- hash of the prompt
    PRIMARY KEY (application, step)
);

-- From an evolved application up to what it began with, the youngest first.
CREATE MACRO ancestors(which) AS TABLE
WITH RECURSIVE up(application, depth) AS (
    SELECT which, 0
    UNION
    SELECT unnest(a.parents), up.depth + 1 FROM up JOIN ancestry a USING (application)
    WHERE a.step = 0
)
SELECT up.depth, a.application, a.step, a.operator, a.kind, a.words, a.tools, a.parents, a.generation, a.seed
FROM up JOIN ancestry a USING (application) ORDER BY up.depth, a.step DESC;
