// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationsTable has which migrations are done.
const migrationsTable = "headgate_migrations"

// migrationAttempts bounds how often migrate begins anew.
const migrationAttempts = 3

// migrate brings the tables in db to what this release uses. Another process may do the
// same at this moment. The second one fails, and finds everything done when it tries again.
func migrate(ctx context.Context, db *sql.DB, b Backend) (err error) {
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	if err := damaged(ctx, db, b); err != nil {
		return err
	}
	for range migrationAttempts {
		if err = migrateOnce(ctx, db, folder, b); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// damaged returns the error of a table that is there and damaged. goose takes that for one that is
// not there, and tries for seconds to make it.
func damaged(ctx context.Context, db *sql.DB, b Backend) error {
	if b.Damaged == nil {
		return nil
	}
	var rows int64
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+migrationsTable).Scan(&rows); err != nil && b.Damaged(err) {
		return fmt.Errorf("the tables of the limits cannot be read: %w", err)
	}
	return nil
}

func migrateOnce(ctx context.Context, db *sql.DB, folder fs.FS, b Backend) error {
	p, err := goose.NewProvider(b.Dialect, db, folder, goose.WithTableName(migrationsTable), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("the tables of the limits: %w", err)
	}
	is, want, err := p.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("the tables of the limits cannot be read: %w", err)
	case is > want:
		return fmt.Errorf("the tables of the limits are of a newer release (they are at %d, this one knows %d): use that release", is, want)
	case is == want:
		return nil
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("the tables of the limits cannot be made: %w", err)
	}
	return nil
}
