// SPDX-License-Identifier: Apache-2.0

package limitsdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/spelling"
)

// Source is where commands that change nothing find limits: in a file, which is the first
// argument, or in a version of a database.
type Source struct {
	DB
	number int64 // 0 is the newest
}

// Flags adds the flags that name the database and the version.
func (r *Source) Flags(cmd *cobra.Command) {
	r.DB.Flags(cmd.Flags())
	cmd.Flags().Int64Var(&r.number, "version", 0, "the `number` of the database's version (default the newest)")
	_ = cmd.RegisterFlagCompletionFunc("version", r.CompleteVersions)
}

// Read returns the limits, and args without the file.
func (r *Source) Read(cmd *cobra.Command, args []string) (s *dynamicconfig.Snapshot, rest []string, err error) {
	if r.Named() {
		err = r.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
			v, err := At(ctx, db, r.number)
			if err != nil {
				return err
			}
			if s, err = v.Parse(); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), err)
				return fmt.Errorf("%s cannot be used", v.Name())
			}
			return nil
		})
		return s, args, err
	}
	name := command.PathOf(cmd)
	switch {
	case len(args) == 0:
		return nil, nil, fmt.Errorf("%s: name a file, or a database with --limits-db", name)
	case r.number != 0:
		return nil, nil, fmt.Errorf("%s: --version is of a database: name it with --limits-db", name)
	}
	if s, err = limitsfile.Load(cmd.InOrStdin(), args[0]); err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), err)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("%s: there is no file %s: name a file before the keys, or a database with --limits-db", name, args[0])
		}
		return nil, nil, fmt.Errorf("%s: %s cannot be used", name, args[0])
	}
	return s, args[1:], nil
}

// Missing is the error of a key that no rule has.
func Missing(s *dynamicconfig.Snapshot, key string) error {
	var keys []string
	for rule := range s.Each() {
		keys = append(keys, rule.Key)
	}
	text := fmt.Sprintf("no rule has the key %q", key)
	if near := spelling.Nearest(key, keys); near != "" {
		return fmt.Errorf("%s; did you mean %q?", text, near)
	}
	if r, ok := s.Match(key); ok && r != s.UnmatchedRule() {
		return fmt.Errorf("%s; the rule %q is for it", text, r.Key)
	}
	return errors.New(text + "; headgate limits list shows all keys")
}

// maxCompletions is how many words a shell is offered at most.
const maxCompletions = 200

// CompleteKeys offers the keys of rules to a shell. Without a database, the first word is a file.
func (r *Source) CompleteKeys(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if !r.Named() && len(args) == 0 {
		return nil, cobra.ShellCompDirectiveDefault // files
	}
	cmd.SetErr(io.Discard)
	s, _, err := r.Read(cmd, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var keys []string
	for rule := range s.Each() {
		if strings.HasPrefix(rule.Key, typed) && len(keys) < maxCompletions {
			keys = append(keys, cobra.CompletionWithDesc(rule.Key, limitsfile.LimitOf(rule)))
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}

// CompleteVersions offers the numbers of versions to a shell.
func (l *DB) CompleteVersions(cmd *cobra.Command, _ []string, typed string) (numbers []string, _ cobra.ShellCompDirective) {
	_ = l.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
		versions, err := db.List(ctx, 0, maxCompletions)
		for _, v := range versions {
			if number := fmt.Sprint(v.Number); strings.HasPrefix(number, typed) {
				first, _, _ := strings.Cut(v.Message, "\n")
				numbers = append(numbers, cobra.CompletionWithDesc(number, v.Author+": "+first))
			}
		}
		return err
	})
	return numbers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
