// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	folder "github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/mesh"
)

func newLimits() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Check, show and change limits, and keep their history",
		Long: `limits reads files of limits as services do, and changes the limits in a file or in a database,
which daemons follow. It asks no service. docs/config.md describes files and databases. A FILE of -
is what comes in on stdin. Commands that read a FILE also read a folder, whose *.yaml files are
one configuration.

The commands exit with 0 after success, also if there was nothing to change; with 1 after an error;
with 2 if diff --exit-code finds differences; with 3 if another change came first, so that yours
must be made again; and with 4 if nobody confirmed what is dangerous.`,
		Example: `  headgate limits check limits.yaml
  headgate limits show limits.yaml frontend:orders
  headgate limits import --from doorman resources.yaml -o limits.yaml
  headgate limits apply --limits-db /var/lib/headgate limits.yaml -m "first limits"
  headgate limits set --limits-db /var/lib/headgate frontend:orders 200/s -m "for the sale"
  headgate limits rollback --limits-db /var/lib/headgate`,
		Args: command.NoSuch,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLimitsCheck(), newLimitsList(), newLimitsGet(), newLimitsShow(), newLimitsDiff(), newLimitsImport(),
		newLimitsSet(), newLimitsRm(), newLimitsEdit(), newLimitsDryRun(), newLimitsSuggest(), newLimitsApply(), newLimitsRollback(),
		newLimitsOverride(), newLimitsBypass(), newLimitsOverrides(), newLimitsReset(),
		newLimitsHistory(), newLimitsExport(), newLimitsPrune())
	return cmd
}

func newLimitsCheck() *cobra.Command {
	var also []string
	var strict bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Say what is wrong with files of limits, and where",
		Long: `check reads each file and says of each mistake where it is and what to do: unknown fields,
numbers out of range, bad globs, algorithms that headgate does not have, and parameters
that they do not take. Name algorithms of your own with --also, and redis too if you use it.

It exits with 1 if any file has a mistake. It also shows what is legal and surely not meant:
globs that are never used, because another stands before them and matches all of their keys, and
keys with characters that look like others, or that cannot be seen. With --strict, these are
mistakes too.`,
		Example: `  headgate limits check limits.yaml
  headgate limits check --also by-region,by-tier a.yaml b.yaml
  generate-limits | headgate limits check -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error { return checkLimits(cmd, files, also, strict) },
	}
	alsoFlag(cmd, &also)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 also for what is legal and surely not meant")
	return cmd
}

func alsoFlag(cmd *cobra.Command, also *[]string) {
	cmd.Flags().StringSliceVar(also, "also", nil, "algorithms that your services register, separated by commas; redis if you use it")
}

func checkLimits(cmd *cobra.Command, files, also []string, strict bool) error {
	broken := 0
	for _, file := range files {
		s := checkFile(cmd, file, also)
		if s == nil {
			broken++
			continue
		}
		warnings := s.Warnings()
		for _, w := range warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), w)
		}
		for _, note := range overrideNotes(s, time.Now()) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", s.Name(), note)
		}
		if strict && len(warnings) > 0 {
			broken++
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: good, rules: %d, version: %s\n", s.Name(), len(s.Rules()), s.Version())
	}
	if broken > 0 {
		return fmt.Errorf("limits check: %d of %d files cannot be used", broken, len(files))
	}
	return nil
}

// checkFile says on stderr what is wrong with a file. It returns nil if that is a mistake.
func checkFile(cmd *cobra.Command, file string, also []string) *dynamicconfig.Snapshot {
	s, err := loadLimits(cmd.InOrStdin(), file)
	if err == nil {
		err = checkAlgorithms(s, also)
	}
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), err)
		if data, err := filewatch.Read(file, dynamicconfig.MaxSize); err == nil {
			hintImport(cmd.ErrOrStderr(), file, data)
		}
		return nil
	}
	return s
}

// checkAlgorithms checks what parsing cannot: the names of algorithms, and
// what parameters they take.
func checkAlgorithms(s *dynamicconfig.Snapshot, also []string) error {
	registry := algorithm.Builtin()
	// Those that no decider of the registry has.
	elsewhere := []string{limiter.Even, algorithm.NameExact, mesh.Name}
	known := func(name string) bool {
		_, err := registry.Lookup(name)
		return err == nil || slices.Contains(elsewhere, name) || slices.Contains(also, name)
	}
	err := s.Check(func(name string) bool {
		account, weigher, pair := strings.Cut(name, "/")
		return known(name) || pair && slices.Contains(algorithm.Accounts, account) && slices.Contains(also, weigher)
	})
	return errors.Join(err, s.CheckParameters(func(name string, parameters map[string]string) error {
		if slices.Contains(elsewhere, name) {
			return fmt.Errorf("%s takes none: remove them", name)
		}
		if !known(name) || slices.Contains(also, name) {
			return nil // told above, or one that only a service can ask
		}
		_, err := registry.Build(name, parameters)
		return err
	}))
}

// loadLimits reads and parses one file of limits, or a folder of them.
func loadLimits(stdin io.Reader, file string) (*dynamicconfig.Snapshot, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return folder.New(file).Load(context.Background())
	}
	name, data, err := readConfig(stdin, file)
	if err != nil {
		return nil, err
	}
	return dynamicconfig.Parse(name, data)
}

// readConfig reads a file, or stdin for -, and what to call it in messages.
// It reads no more than shows that the file is too big.
func readConfig(stdin io.Reader, file string) (name string, data []byte, err error) {
	in := stdin
	if name = "stdin"; file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return file, nil, err
		}
		defer func() { _ = f.Close() }() // it was only read
		name, in = file, f
	}
	data, err = io.ReadAll(io.LimitReader(in, dynamicconfig.MaxLargeSize+1))
	if err != nil {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return name, data, err
}
