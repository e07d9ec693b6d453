// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/etcd"
	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/sql/postgresql"
	"github.com/headgate/headgate/dynamicconfig/sql/sqlite"
)

// LimitsDB is a database of limits, and the source of its newest version.
type LimitsDB interface {
	history.Store
	dynamicconfig.Source
	io.Closer
}

// IsDirectory reports whether a database of limits is in a directory of this machine.
func IsDirectory(where string) bool { return where != "" && !strings.Contains(where, "://") }

// OpenLimitsDB opens a database as Config.LimitsDB says. It connects to none yet.
func OpenLimitsDB(where string) (LimitsDB, error) {
	scheme, _, _ := strings.Cut(where, "://")
	switch {
	case where == "":
		return nil, errors.New("no database of limits: name one")
	case scheme == where:
		if info, err := os.Stat(where); err == nil && !info.IsDir() {
			return nil, fmt.Errorf("%s is a file: name the directory of the database, as in %s", where, filepath.Dir(where))
		}
		return sqlite.New(where), nil
	case scheme == "etcd" || scheme == "etcds":
		return etcd.Open(where)
	case scheme != "postgres" && scheme != "postgresql":
		return nil, fmt.Errorf("%s:// is no database of limits: name a directory, postgres://USER@HOST/DATABASE or etcd://HOST:PORT", scheme)
	}
	u, err := url.Parse(where)
	if err != nil {
		return nil, errors.New("the database of limits is no URL: write it as in postgres://USER@HOST/DATABASE")
	}
	if _, set := u.User.Password(); set || u.Query().Has("password") {
		return nil, errors.New("the URL of the database of limits has a password, which other users of this machine may see: put it into ~/.pgpass or PGPASSWORD")
	}
	return postgresql.New(where)
}

// source opens the source of the limits, and what to close when nothing uses it any more.
func (d *Daemon) source() (dynamicconfig.Source, error) {
	if d.config.LimitsDB == "" {
		return file.New(d.config.Limits, file.WithLogger(d.log)), nil
	}
	db, err := OpenLimitsDB(d.config.LimitsDB)
	if err != nil {
		return nil, err
	}
	d.limits = db
	return db, nil
}

// validateLimits returns all that is wrong with where the limits are.
func (c Config) validateLimits() error {
	switch {
	case c.Limits == "" && c.LimitsDB == "":
		return mistaken(errors.New("no limits: name a file with --limits, or a database with --limits-db"), "limits", "limits-db")
	case c.Limits != "" && c.LimitsDB != "":
		return mistaken(errors.New("a file of limits is given, and a database: choose one"), "limits", "limits-db")
	case c.LimitsDB == "":
		return nil
	}
	db, err := OpenLimitsDB(c.LimitsDB)
	if err != nil {
		return mistaken(err, "limits-db")
	}
	return db.Close()
}
