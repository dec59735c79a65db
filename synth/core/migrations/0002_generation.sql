-- Agents, tasks, episodes and verdicts. The files in runs/ are the truth; this is their index.

CREATE TABLE toolsets (
    toolset      VARCHAR PRIMARY KEY,
    application  VARCHAR NOT NULL,
    tools        JSON NOT NULL
);

CREATE TABLE agents (
    agent        VARCHAR PRIMARY KEY,  -- content key
    application  VARCHAR NOT NULL,
    toolset      VARCHAR,
    behaviour    VARCHAR NOT NULL,
    system       VARCHAR NOT NULL,
    document     JSON NOT NULL
);

-- Which definition of each tool the agents of a run were shown.
CREATE TABLE run_tools (
    run          VARCHAR NOT NULL,
    application  VARCHAR NOT NULL,
    name         VARCHAR NOT NULL,
    spec         VARCHAR NOT NULL,     -- tool_versions.spec
    PRIMARY KEY (run, application, name)
);

CREATE TABLE agent_tools (
    agent     VARCHAR NOT NULL,
    position  INTEGER NOT NULL,
    name      VARCHAR NOT NULL,
    PRIMARY KEY (agent, position)
);

CREATE TABLE runs (
    run          VARCHAR PRIMARY KEY,
    path         VARCHAR NOT NULL,
    fingerprint  VARCHAR,
    config       JSON,
    report       JSON,
    ingested_at  TIMESTAMP NOT NULL
);

CREATE TABLE tasks (
    task        VARCHAR PRIMARY KEY,   -- content key
    world       VARCHAR NOT NULL,
    kind        VARCHAR NOT NULL,
    difficulty  INTEGER NOT NULL,
    language    VARCHAR NOT NULL,
    state_seed  BIGINT NOT NULL,
    request     VARCHAR NOT NULL,
    persona     JSON NOT NULL,
    blueprint   JSON NOT NULL
);

CREATE TABLE criteria (
    task       VARCHAR NOT NULL,
    criterion  VARCHAR NOT NULL,
    level      VARCHAR NOT NULL,       -- must, should, must_not
    kind       VARCHAR NOT NULL,       -- state, call, output, judged
    text       VARCHAR NOT NULL,
    document   JSON NOT NULL,
    PRIMARY KEY (task, criterion)
);

CREATE TABLE plans (
    run       VARCHAR NOT NULL,
    episode   VARCHAR NOT NULL,
    position  INTEGER NOT NULL,
    task      VARCHAR NOT NULL,
    agent     VARCHAR NOT NULL,
    PRIMARY KEY (run, episode)
);

CREATE TABLE episodes (
    run       VARCHAR NOT NULL,
    episode   VARCHAR NOT NULL,
    task      VARCHAR NOT NULL,
    agent     VARCHAR NOT NULL,
    world     VARCHAR NOT NULL,
    kind      VARCHAR NOT NULL,
    real      BOOLEAN NOT NULL,
    seed      BIGINT NOT NULL,
    stop      VARCHAR NOT NULL,
    fault     VARCHAR,
    error     VARCHAR,
    players   JSON NOT NULL,
    usage     JSON NOT NULL,
    diff      JSON NOT NULL,
    messages  JSON NOT NULL,
    PRIMARY KEY (run, episode)
);

CREATE TABLE steps (
    run        VARCHAR NOT NULL,
    episode    VARCHAR NOT NULL,
    position   INTEGER NOT NULL,
    message    INTEGER NOT NULL,       -- index in messages
    name       VARCHAR NOT NULL,
    arguments  VARCHAR NOT NULL,       -- the exact text; need not be JSON
    ok         BOOLEAN NOT NULL,
    error      VARCHAR,                -- code
    outcome    VARCHAR NOT NULL,
    effect     VARCHAR NOT NULL,
    state      VARCHAR,
    content    VARCHAR NOT NULL,
    PRIMARY KEY (run, episode, position)
);

CREATE TABLE verdicts (
    run      VARCHAR NOT NULL,
    episode  VARCHAR NOT NULL,
    passed   BOOLEAN,                  -- NULL: not judged, never to be read as false
    reason   VARCHAR NOT NULL,
    fault    VARCHAR,
    results  JSON NOT NULL,
    PRIMARY KEY (run, episode)
);
