-- SPDX-License-Identifier: Apache-2.0
-- Every column's type means the same in SQLite and in PostgreSQL.

-- +goose Up
CREATE TABLE headgate_limits (
	number      BIGINT PRIMARY KEY CHECK (number > 0),
	text        TEXT   NOT NULL,
	author      TEXT   NOT NULL,
	message     TEXT   NOT NULL,
	time        BIGINT NOT NULL, -- microseconds since 1970-01-01T00:00:00Z
	fingerprint TEXT   NOT NULL
);
