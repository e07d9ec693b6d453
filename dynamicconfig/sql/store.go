// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
)

var (
	_ history.Store        = (*Store)(nil)
	_ dynamicconfig.Source = (*Store)(nil)
)

// Backend is what databases do differently.
type Backend struct {
	// Name is what errors call the database.
	Name string

	// Open opens the database, and makes it first if it is not there and create is set.
	// The error of a database that is not there matches history.ErrEmpty.
	Open func(create bool) (*sql.DB, error)

	// Stale reports whether another database is now where Open has opened one. Nil: never.
	Stale func() bool

	// Dialect is for the migrations.
	Dialect goose.Dialect

	// Remedy is what to do about an error of the database; empty if that is not known. Nil: it never is.
	Remedy func(error) string

	// Damaged reports whether an error says that what the database has cannot be read. Nil: none does.
	Damaged func(error) bool

	// Index is a statement that makes an index, if there is none: other releases need not know of it.
	// Default none.
	Index string

	// Announce is a statement that notifies other processes of the new version, $1. It is
	// part of the transaction. Default none.
	Announce string

	// Notify calls changed after what may be a change of another process, until ctx
	// ends. Nil: there are no notifications.
	Notify func(ctx context.Context, changed func())
}

// Store is a history of limits, and the dynamicconfig.Source of its newest version. It
// opens the database when that is first needed. Safe for concurrent use, also by several
// processes. Make it with sqlite.New or postgresql.New, and close it.
type Store struct {
	*history.Source

	backend Backend
	bell    history.Bell

	mu     sync.Mutex // guards what follows
	db     *sql.DB    // nil: not open
	closed bool
}

// New makes a Store of b, whose Source polls every poll, as in history.NewSource.
func New(b Backend, poll time.Duration) *Store {
	s := &Store{backend: b}
	s.Source = history.NewSource(s, poll)
	return s
}

// Close closes the database. Calls after it are errors.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.shutLocked()
}

func (s *Store) shutLocked() error {
	db := s.db
	s.db = nil
	if db == nil {
		return nil
	}
	return db.Close()
}

// open returns the database, whose tables are there.
func (s *Store) open(ctx context.Context, create bool) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the store of limits is closed")
	}
	if s.db != nil && s.backend.Stale != nil && s.backend.Stale() {
		_ = s.shutLocked() // what it holds is gone
	}
	if s.db != nil {
		return s.db, nil
	}
	db, err := s.backend.Open(create)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, db, s.backend); err != nil {
		return nil, errors.Join(s.remedied(err), db.Close())
	}
	if s.backend.Index != "" {
		// Without it all is there too, and slower. The first time takes a while with many large versions.
		_, _ = db.ExecContext(context.WithoutCancel(ctx), s.backend.Index)
	}
	s.db = db
	return db, nil
}

// remedied is err with what to do about it, if that is known.
func (s *Store) remedied(err error) error {
	if err == nil || s.backend.Remedy == nil {
		return err
	}
	if remedy := s.backend.Remedy(err); remedy != "" {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}

const (
	insert = `INSERT INTO headgate_limits (number, text, author, message, time, fingerprint)
		SELECT CAST($1 AS BIGINT), $2, $3, $4, CAST($5 AS BIGINT), $6
		WHERE CAST($1 AS BIGINT) = (SELECT coalesce(max(number), 0) + 1 FROM headgate_limits)
		AND (CAST($7 AS TEXT) = '' OR EXISTS (SELECT 1 FROM headgate_limits WHERE number = CAST($1 AS BIGINT) - 1
			AND (fingerprint = CAST($7 AS TEXT) OR substr(fingerprint, 1, length(CAST($7 AS TEXT)) + 1) = CAST($7 AS TEXT) || '/')))
		ON CONFLICT DO NOTHING`
	selectNewest = `SELECT number, author, message, time, fingerprint FROM headgate_limits ORDER BY number DESC LIMIT 1`
	selectOne    = `SELECT text, number, author, message, time, fingerprint FROM headgate_limits WHERE number = $1`
	selectList   = `SELECT number, author, message, time, fingerprint FROM headgate_limits WHERE CAST($1 AS BIGINT) = 0 OR number < CAST($1 AS BIGINT) ORDER BY number DESC LIMIT $2`
	deleteOld    = `DELETE FROM headgate_limits WHERE number <= (SELECT max(number) FROM headgate_limits) - CAST($1 AS BIGINT)`
)

// Append implements history.Store.
func (s *Store) Append(ctx context.Context, c history.Change) (history.Version, error) {
	v, err := c.Version(now())
	if err != nil {
		return history.Version{}, err
	}
	db, err := s.open(ctx, true)
	if err != nil {
		return history.Version{}, err
	}
	stored, err := s.insert(ctx, db, v, c.Seen)
	if err != nil {
		return history.Version{}, fmt.Errorf("store %s of the limits: %w", v.Name(), s.remedied(err))
	}
	if !stored {
		newest, err := s.Newest(ctx)
		if err != nil && !errors.Is(err, history.ErrEmpty) {
			return history.Version{}, err
		}
		return history.Version{}, &history.Conflict{Base: c.Base, Newest: newest.Number}
	}
	s.bell.Ring()
	return v, nil
}

// insert stores v, unless it is not the next version, or the one before has another fingerprint
// than seen, if that is not empty.
func (s *Store) insert(ctx context.Context, db *sql.DB, v history.Version, seen string) (stored bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // nothing, after a Commit
	result, err := tx.ExecContext(ctx, insert, v.Number, v.Text, v.Author, v.Message, v.Time.UnixMicro(), seal(v), seen)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	if err != nil || rows == 0 {
		return false, err
	}
	if s.backend.Announce != "" {
		if _, err := tx.ExecContext(ctx, s.backend.Announce, v.Number); err != nil {
			return false, err
		}
	}
	return true, tx.Commit()
}

// Newest implements history.Store.
func (s *Store) Newest(ctx context.Context) (history.Version, error) {
	v, err := s.one(ctx, false, selectNewest)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%s: %w", s.backend.Name, history.ErrEmpty)
	}
	return v, err
}

// Get implements history.Store.
func (s *Store) Get(ctx context.Context, number int64) (history.Version, error) {
	v, err := s.one(ctx, true, selectOne, number)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("version %d: %w", number, history.ErrNoVersion)
	}
	return v, err
}

func (s *Store) one(ctx context.Context, withText bool, query string, args ...any) (history.Version, error) {
	db, err := s.open(ctx, false)
	if err != nil {
		return history.Version{}, err
	}
	v, err := scan(db.QueryRowContext(ctx, query, args...), withText)
	return v, s.remedied(err)
}

// List implements history.Store.
func (s *Store) List(ctx context.Context, before int64, n int) (versions []history.Version, err error) {
	db, err := s.open(ctx, false)
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, selectList, before, n)
	if err != nil {
		return nil, fmt.Errorf("list the versions of the limits: %w", s.remedied(err))
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows, false)
		if err != nil {
			return nil, s.remedied(err)
		}
		versions = append(versions, v)
	}
	return versions, s.remedied(rows.Err())
}

// scan reads a row of one of the queries.
func scan(row interface{ Scan(...any) error }, withText bool) (v history.Version, err error) {
	var micros int64
	var sealed string
	columns := []any{&v.Number, &v.Author, &v.Message, &micros, &sealed}
	if withText {
		columns = append([]any{&v.Text}, columns...)
	}
	if err := row.Scan(columns...); err != nil {
		return history.Version{}, fmt.Errorf("read the limits: %w", err)
	}
	if v.Time = time.UnixMicro(micros).UTC(); v.Time.Year() < 1 || v.Time.Year() > 9999 {
		v.Time = time.Time{} // of a damaged database. JSON has no such year, and a list of versions is wanted
	}
	fingerprint, sum := unseal(sealed)
	v.Fingerprint, v.Damaged = fingerprint, withText && sum != "" && sum != checksum(v.Text)
	return v, nil
}

// Prune implements history.Store.
func (s *Store) Prune(ctx context.Context, keep int) (removed int64, err error) {
	if err := history.CheckPrune(keep); err != nil {
		return 0, err
	}
	db, err := s.open(ctx, false)
	if err != nil {
		return 0, err
	}
	result, err := db.ExecContext(ctx, deleteOld, keep)
	if err != nil {
		return 0, fmt.Errorf("prune the versions of the limits: %w", s.remedied(err))
	}
	return result.RowsAffected()
}

// Notify implements history.Store.
func (s *Store) Notify(ctx context.Context, changed func()) {
	var others sync.WaitGroup
	defer others.Wait()
	if s.backend.Notify != nil {
		others.Go(func() { s.backend.Notify(ctx, changed) })
	}
	s.bell.Listen(ctx, changed)
}
