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

// migrationAttempts bounds how often migrate begins anew.
const migrationAttempts = 3

// migrate brings the tables in db to what this release uses. Another process may do the
// same at this moment. The second one fails, and finds everything done when it tries again.
func migrate(ctx context.Context, db *sql.DB, b Backend) (err error) {
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	for range migrationAttempts {
		if err = migrateOnce(ctx, db, folder, b); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

func migrateOnce(ctx context.Context, db *sql.DB, folder fs.FS, b Backend) error {
	p, err := goose.NewProvider(b.Dialect, db, folder, goose.WithTableName("headgate_migrations"), goose.WithLogger(goose.NopLogger()))
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
