// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/daemon"
)

// exitConflict is the exit code of a change that came after another's.
const exitConflict = 3

// limitsDB is the database of limits that a command works on.
type limitsDB struct {
	where string
	admin adminclient.Decider // of a decider that has the database, if where is empty
}

func (l *limitsDB) flags(flags *pflag.FlagSet) {
	l.admin.Flags(flags)
	flags.Lookup("admin").Usage = "where a decider with a database serves its operators, `host:port`, in place of --limits-db"
	flags.StringVar(&l.where, "limits-db", "", "`database` of limits, as for headgate serve: a directory, postgres://USER@HOST/DATABASE or etcd://HOST:PORT")
}

// use calls f with the database.
func (l *limitsDB) use(cmd *cobra.Command, f func(ctx context.Context, db daemon.LimitsDB) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", strings.TrimPrefix(cmd.CommandPath(), "headgate "), l.remedy(err))
			if _, ok := errors.AsType[*history.Conflict](err); ok {
				err = command.WithCode(err, exitConflict)
			}
		}
	}()
	db, err := l.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return f(cmd.Context(), patientDB{db})
}

// named reports whether there is a database to work on.
func (l *limitsDB) named() bool { return l.where != "" || l.admin.Address != "" }

// open opens the database, or asks a decider for it.
func (l *limitsDB) open() (daemon.LimitsDB, error) {
	switch {
	case l.where != "" && l.admin.Address != "":
		return nil, errors.New("--limits-db and --admin: name a database, or a decider that has one")
	case l.where != "":
		return daemon.OpenLimitsDB(l.where)
	case l.admin.Address == "":
		return nil, errors.New("say which database, as in --limits-db /var/lib/headgate, or which decider has it, as in --admin 10.0.0.7:7936")
	}
	c, err := l.admin.Client()
	if err != nil {
		return nil, err
	}
	return adminclient.Store{Client: c}, nil
}

// directory says what is wrong if the database would be in a directory that is not there. A
// mistyped one must not become a new database, which no daemon follows.
func (l *limitsDB) directory() error {
	if !daemon.IsDirectory(l.where) {
		return nil
	}
	if _, err := os.Stat(l.where); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("there is no directory %s, and nothing was stored: for a new database, make the directory first, as in `mkdir -p -m 700 %s`", l.where, l.where)
}

// remedy says what to do about an empty database.
func (l *limitsDB) remedy(err error) error {
	if !errors.Is(err, history.ErrEmpty) {
		return err
	}
	where := "--limits-db " + l.where
	if l.where == "" {
		where = "--admin " + l.admin.Address
	}
	return fmt.Errorf("%w, with `headgate limits apply %s FILE`", err, where)
}

// at returns one version with its text; the newest if number is 0.
func at(ctx context.Context, db history.Store, number int64) (history.Version, error) {
	if number == 0 {
		newest, err := db.Newest(ctx)
		if err != nil {
			return history.Version{}, err
		}
		number = newest.Number
	}
	return db.Get(ctx, number)
}

// newest returns the newest version with its text; version 0 if there is none.
func newest(ctx context.Context, db history.Store) (history.Version, error) {
	v, err := at(ctx, db, 0)
	if errors.Is(err, history.ErrEmpty) {
		return history.Version{Text: "limits: []"}, nil
	}
	return v, err
}

// checkDB says what is wrong with the newest version of a database. If nothing is, it
// returns that version.
func checkDB(cmd *cobra.Command, where string, also []string) (s *dynamicconfig.Snapshot, err error) {
	l := limitsDB{where: where}
	err = l.use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
		v, err := at(ctx, db, 0)
		if err != nil {
			return err
		}
		found, err := v.Parse()
		if err == nil {
			err = checkAlgorithms(found, also)
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
