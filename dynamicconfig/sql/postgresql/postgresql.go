// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	databasesql "database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/headgate/headgate/dynamicconfig/sql"
)

// channel is that of NOTIFY.
const channel = "headgate_limits"

// maxConnections bounds those of a store, without the one that listens.
const maxConnections = 4

// DefaultPoll is how often a store looks for changes whose notification is lost.
const DefaultPoll = time.Second

// Option changes a store.
type Option func(*server)

// WithPoll sets how often the store looks for changes whose notification is lost; > 0,
// default DefaultPoll.
func WithPoll(d time.Duration) Option { return func(s *server) { s.poll = d } }

// New makes a store in the database at url, which is a URL or a list of settings as for
// psql. It connects to nothing yet.
func New(url string, options ...Option) (*sql.Store, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err) // it shows no password
	}
	s := &server{config: config, poll: DefaultPoll}
	for _, o := range options {
		o(s)
	}
	return sql.New(sql.Backend{
		Name:     fmt.Sprintf("database %s at %s:%d", config.Database, config.Host, config.Port),
		Open:     s.open,
		Remedy:   remedy,
		Dialect:  goose.DialectPostgres,
		Announce: "SELECT pg_notify('" + channel + "', CAST(CAST($1 AS BIGINT) AS TEXT))",
		Notify:   s.notify,
	}, s.poll), nil
}

// server is a PostgreSQL server.
type server struct {
	config *pgx.ConnConfig
	poll   time.Duration
}

func (s *server) open(bool) (*databasesql.DB, error) {
	db := stdlib.OpenDB(*s.config)
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(1)
	return db, nil
}

// remedy is what to do about an error.
func remedy(err error) string {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return "look whether PostgreSQL runs there, and lets in this host, the user and the password"
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return ""
	case e.Code == "25006":
		return "this server is a standby, or only reads: name the primary, or all servers and target_session_attrs=read-write"
	case e.Code == "42501":
		return "the user must own the tables headgate_limits and headgate_migrations, or be allowed to make them"
	case e.Code == "53100":
		return "make room on the disk of PostgreSQL"
	case strings.HasPrefix(e.Code, "57P"):
		return "PostgreSQL was stopped: start it again"
	default:
		return ""
	}
}
