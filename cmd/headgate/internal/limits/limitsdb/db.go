// SPDX-License-Identifier: Apache-2.0

package limitsdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/daemon"
)

// ExitConflict is the exit code of a change that is refused because another was stored first.
const ExitConflict = 3

// DB is the database of limits that a command works on.
type DB struct {
	Where string              // a directory or a URL; empty: a decider has the database
	Admin adminclient.Decider // which decider; Address is empty if Where names the database
}

// Flags adds the flags that name the database.
func (l *DB) Flags(flags *pflag.FlagSet) {
	l.Admin.Flags(flags)
	flags.Lookup("admin").Usage = "where a decider with a database serves its operators, `host:port`, in place of --limits-db"
	timeout := flags.Lookup("timeout")
	timeout.Usage, timeout.DefValue = "how long to wait for each answer of --admin", dbTimeout.String()
	l.Admin.Timeout = dbTimeout
	flags.StringVar(&l.Where, "limits-db", "", "`database` of limits, as for headgate serve: a directory, postgres://USER@HOST/DATABASE or etcd://HOST:PORT")
}

// NoFile returns an error that says what to do instead if args, of a command that is about versions, name a file
// in place of a database.
func (l *DB) NoFile(cmd *cobra.Command, args []string, instead string) error {
	if len(args) == 0 || l.Named() {
		return nil
	}
	if _, err := os.Stat(args[0]); err != nil {
		return nil
	}
	return fmt.Errorf("%s: %s is a file, which has no versions: %s; or name a database with --limits-db", command.PathOf(cmd), args[0], instead)
}

// Use calls f with the database. Errors begin with the name of cmd.
func (l *DB) Use(cmd *cobra.Command, f func(ctx context.Context, db daemon.LimitsDB) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", command.PathOf(cmd), l.Remedy(err))
			if _, ok := errors.AsType[*history.Conflict](err); ok {
				err = command.WithCode(err, ExitConflict)
			}
		}
	}()
	db, err := l.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p := patientDB{LimitsDB: db}
	if l.Where != "" {
		p.within = dbTimeout
	}
	return f(cmd.Context(), p)
}

// Named reports whether there is a database to work on.
func (l *DB) Named() bool { return l.Where != "" || l.Admin.Address != "" }

// open opens the database, or asks a decider for it.
func (l *DB) open() (daemon.LimitsDB, error) {
	switch {
	case l.Where != "" && l.Admin.Address != "":
		return nil, errors.New("--limits-db and --admin are both given: use one of them. --admin asks the decider for its database")
	case l.Where != "":
		return daemon.OpenLimitsDB(l.Where)
	case l.Admin.Address == "":
		return nil, errors.New("say which database, as in --limits-db /var/lib/headgate, or which decider has it, as in --admin 10.0.0.7:7936")
	}
	c, err := l.Admin.Client()
	if err != nil {
		return nil, err
	}
	return adminclient.Store{Client: c}, nil
}

// CheckDirectory returns an error if the database would be in a directory that does not exist. A
// mistyped name must not become a new database, which no daemon follows.
func (l *DB) CheckDirectory() error {
	if !daemon.IsDirectory(l.Where) {
		return nil
	}
	if _, err := os.Stat(l.Where); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("there is no directory %s, and nothing was stored: for a new database, make the directory first, as in `mkdir -p -m 700 %s`", l.Where, l.Where)
}

// Remedy returns err, and says what to do if err is that of an empty database.
func (l *DB) Remedy(err error) error {
	if !errors.Is(err, history.ErrEmpty) {
		return err
	}
	where := "--limits-db " + l.Where
	if l.Where == "" {
		where = "--admin " + l.Admin.Address
	}
	return fmt.Errorf("%w, with `headgate limits apply %s FILE`", err, where)
}

// At returns one version with its text; the newest if number is 0.
func At(ctx context.Context, db history.Store, number int64) (history.Version, error) {
	if number == 0 {
		newest, err := db.Newest(ctx)
		if err != nil {
			return history.Version{}, err
		}
		number = newest.Number
	}
	return db.Get(ctx, number)
}

// Newest returns the newest version with its text; version 0 if there is none.
func Newest(ctx context.Context, db history.Store) (history.Version, error) {
	v, err := At(ctx, db, 0)
	if errors.Is(err, history.ErrEmpty) {
		return history.Version{Text: "limits: []"}, nil
	}
	return v, err
}

// CheckNewest checks the newest version of the database that where names, prints what it found,
// and returns that version, or nil if the version has a mistake.
func CheckNewest(cmd *cobra.Command, where string, also []string) (s *dynamicconfig.Snapshot, err error) {
	l := DB{Where: where}
	err = l.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
		v, err := At(ctx, db, 0)
		if err != nil {
			return err
		}
		found, err := v.Parse()
		if err == nil {
			err = limitsfile.CheckAlgorithms(found, also)
		}
		if err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), err)
			return fmt.Errorf("%s cannot be used", v.Name())
		}
		s = found
		fmt.Fprintf(cmd.OutOrStdout(), "%s: good, rules: %d, limits: %s\n", v.Name(), len(s.Rules()), s.Version())
		return nil
	})
	return s, err
}
