-- Where tools come from and what they are. Free-form objects are JSON text.

CREATE TABLE servers (
    server      VARCHAR PRIMARY KEY,  -- pypi:NAME, npm:NAME, mcp.json:PATH#NAME, application:NAME
    registry    VARCHAR NOT NULL,     -- pypi, npm, mcp.json, application
    package     VARCHAR,
    title       VARCHAR,              -- the server's own name; says nothing about identity
    licence     VARCHAR,
    homepage    VARCHAR,
    first_seen  TIMESTAMP NOT NULL,
    last_seen   TIMESTAMP NOT NULL
);

-- One attempt to list a server. Its row exists whatever came of it.
CREATE TABLE crawls (
    crawl           VARCHAR PRIMARY KEY,
    server          VARCHAR NOT NULL,
    started_at      TIMESTAMP NOT NULL,
    outcome         VARCHAR NOT NULL, -- ok, exited, timeout, rpc_error, invalid, oversize,
                                      -- install_failed, unsupported, not_run
    reason          VARCHAR,
    package_version VARCHAR,
    latest_version  VARCHAR,          -- differs from package_version when the newest did not fit here
    protocol        VARCHAR,
    server_info     JSON,
    instructions    VARCHAR,
    argv            JSON,             -- exactly what was run
    confinement     VARCHAR,
    network         BOOLEAN,
    "constraint"    VARCHAR,          -- what the installation was held to, such as mcp<2
    install_s       DOUBLE,
    start_s         DOUBLE,
    list_s          DOUBLE,
    tools           INTEGER,
    rejected        INTEGER,
    list_hash       VARCHAR,
    flags           JSON,
    stderr_tail     VARCHAR
);

CREATE TABLE categories (
    category     VARCHAR PRIMARY KEY,
    description  VARCHAR
);

CREATE TABLE applications (
    application  VARCHAR PRIMARY KEY,
    category     VARCHAR,
    summary      VARCHAR,
    key          VARCHAR,             -- content key of the document
    document     JSON,
    updated_at   TIMESTAMP NOT NULL
);

CREATE TABLE tools (
    tool           VARCHAR PRIMARY KEY, -- server/name
    server         VARCHAR NOT NULL,
    name           VARCHAR NOT NULL,    -- as the server calls it
    function_name  VARCHAR NOT NULL,    -- as a model calls it: [A-Za-z0-9_-], 64 characters at most
    application    VARCHAR,
    category       VARCHAR,
    version        INTEGER NOT NULL,    -- the one last seen
    listed         BOOLEAN NOT NULL,    -- false once a successful crawl no longer showed it
    first_seen     TIMESTAMP NOT NULL,
    last_seen      TIMESTAMP NOT NULL
);

-- A version is a definition. A new one gets the next number; one that comes back keeps its own.
CREATE TABLE tool_versions (
    tool             VARCHAR NOT NULL,
    version          INTEGER NOT NULL,
    spec             VARCHAR NOT NULL,  -- content key of the ToolSpec, which rows refer to
    definition       VARCHAR NOT NULL,  -- content key without package version and licence
    description      VARCHAR NOT NULL,
    parameters       JSON NOT NULL,
    returns          JSON,
    annotations      JSON,
    effect           VARCHAR NOT NULL,  -- read, write, destructive, unknown
    effect_source    VARCHAR NOT NULL,
    provenance       JSON NOT NULL,
    document         JSON NOT NULL,     -- the whole ToolSpec
    raw              JSON,              -- as the server wrote it
    raw_hash         VARCHAR NOT NULL,
    semantic_hash    VARCHAR NOT NULL,  -- without titles, order and other noise of serialisers
    description_hash VARCHAR NOT NULL,
    flags            JSON NOT NULL,
    package_version  VARCHAR,
    crawl            VARCHAR,           -- the first that saw it
    seen_at          TIMESTAMP NOT NULL,
    PRIMARY KEY (tool, version)
);

CREATE TABLE tool_sightings (
    crawl    VARCHAR NOT NULL,
    tool     VARCHAR NOT NULL,
    version  INTEGER NOT NULL,
    PRIMARY KEY (crawl, tool)
);

CREATE TABLE rejects (
    crawl     VARCHAR NOT NULL,
    server    VARCHAR NOT NULL,
    position  INTEGER NOT NULL,        -- in the server's list
    name      VARCHAR,
    reason    VARCHAR NOT NULL,        -- one word
    detail    VARCHAR,
    raw       JSON,
    PRIMARY KEY (crawl, position)
);

CREATE TABLE tool_edges (
    source     VARCHAR NOT NULL,       -- tool
    "column"   VARCHAR NOT NULL,       -- of its result
    target     VARCHAR NOT NULL,       -- tool
    parameter  VARCHAR NOT NULL,
    PRIMARY KEY (source, "column", target, parameter)
);

-- Words of the current definition of each tool, for ranked search (BM25).
CREATE TABLE search_words (
    word   VARCHAR NOT NULL,
    tool   VARCHAR NOT NULL,
    times  INTEGER NOT NULL
);

CREATE TABLE search_tools (
    tool   VARCHAR PRIMARY KEY,
    words  INTEGER NOT NULL            -- length of its text
);
