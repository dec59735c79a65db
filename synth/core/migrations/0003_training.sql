-- What was exported, what was trained on it, and how well the result does.

CREATE TABLE exports (
    export      VARCHAR PRIMARY KEY,
    run         VARCHAR NOT NULL,
    format      VARCHAR NOT NULL,
    path        VARCHAR NOT NULL,
    sha256      VARCHAR,
    created_at  TIMESTAMP NOT NULL
);

CREATE TABLE export_rows (
    export   VARCHAR NOT NULL,
    row      INTEGER NOT NULL,
    run      VARCHAR NOT NULL,
    episode  VARCHAR NOT NULL,
    PRIMARY KEY (export, row)
);

CREATE TABLE training_runs (
    training    VARCHAR PRIMARY KEY,
    method      VARCHAR NOT NULL,      -- sft, rl, critic, long2short
    model       VARCHAR NOT NULL,      -- what it started from
    export      VARCHAR,
    config      JSON,
    report      JSON,
    started_at  TIMESTAMP NOT NULL
);

CREATE TABLE checkpoints (
    checkpoint  VARCHAR PRIMARY KEY,
    training    VARCHAR NOT NULL,
    step        INTEGER NOT NULL,
    path        VARCHAR NOT NULL,
    created_at  TIMESTAMP NOT NULL
);

CREATE TABLE evaluations (
    evaluation   VARCHAR PRIMARY KEY,
    model        VARCHAR NOT NULL,     -- a checkpoint, or a model from elsewhere
    checkpoint   VARCHAR,
    application  VARCHAR NOT NULL,
    n            INTEGER NOT NULL,
    passed       INTEGER NOT NULL,
    not_scored   INTEGER NOT NULL,
    report       JSON,
    created_at   TIMESTAMP NOT NULL
);
