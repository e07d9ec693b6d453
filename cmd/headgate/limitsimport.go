// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/doormanconfig"
	"github.com/headgate/headgate/dynamicconfig/quotaserviceconfig"
)

// importers make limits of the config of other rate limiters, by their names.
var importers = map[string]func(name string, data []byte) ([]byte, error){
	"doorman":      doormanconfig.Import,
	"quotaservice": quotaserviceconfig.Import,
}

// looks finds the configs of other rate limiters that have mistakes, by a field at their top.
var looks = map[string]*regexp.Regexp{
	"doorman":      regexp.MustCompile(`(?m)^resources:`),
	"quotaservice": regexp.MustCompile(`(?m)^(namespaces|global_default_bucket):`),
}

// hintImport says on w what to do with a file that is the config of another rate
// limiter; nothing if it is not.
func hintImport(w io.Writer, file string, data []byte) {
	for _, from := range slices.Sorted(maps.Keys(importers)) {
		if _, err := importers[from](file, data); err == nil {
			fmt.Fprintf(w, "%s is a config of %s: make limits of it with `headgate limits import --from %s %s -o limits.yaml`\n", file, from, from, file)
			return
		}
	}
	for _, from := range slices.Sorted(maps.Keys(looks)) {
		if looks[from].Match(data) {
			fmt.Fprintf(w, "%s looks like a config of %s: `headgate limits import --from %s %s` says what is wrong with it\n", file, from, from, file)
			return
		}
	}
}

func newLimitsImport() *cobra.Command {
	var from, to string
	names := strings.Join(slices.Sorted(maps.Keys(importers)), ", ")
	cmd := &cobra.Command{
		Use:   "import --from NAME FILE",
		Short: "Make a file of limits of another rate limiter's config",
		Long: `import reads the config of another rate limiter and prints limits of the same meaning.
What cannot be carried over is a comment in the result. A mistake in the config, or a field
that the other one does not know, ends it with the place.

  doorman         the YAML of resources and algorithms that Doorman's servers read
  quotaservice    the YAML or JSON of namespaces and buckets that quotaservice reads`,
		Example: `  headgate limits import --from doorman resources.yaml
  headgate limits import --from doorman resources.yaml -o limits.yaml
  headgate limits import --from quotaservice quotaservice.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			read := importers[from]
			switch {
			case from == "":
				return fmt.Errorf("limits import: from which rate limiter? Say --from with one of: %s", names)
			case read == nil:
				return fmt.Errorf("limits import: --from %s: use one of: %s", from, names)
			}
			return importLimits(cmd, read, args[0], to)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "whose config it is: "+names)
	cmd.Flags().StringVarP(&to, "output", "o", "", "write to this `file`, which must not exist yet, and not to stdout")
	return cmd
}

func importLimits(cmd *cobra.Command, read func(string, []byte) ([]byte, error), file, to string) error {
	name, data, err := readConfig(cmd.InOrStdin(), file)
	if err != nil {
		return fmt.Errorf("limits import: %w", err)
	}
	limits, err := read(name, data)
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), err)
		return fmt.Errorf("limits import: %s cannot be imported", name)
	}
	if to == "" {
		_, err := cmd.OutOrStdout().Write(limits)
		return err
	}
	s, err := dynamicconfig.Parse(to, limits)
	if err != nil {
		return err
	}
	if err := writeNew(to, limits); err != nil {
		return fmt.Errorf("limits import: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: written, rules: %d\n", to, len(s.Rules()))
	return nil
}

// writeNew writes a file that is not there yet: limits that are in force are
// not replaced by accident.
func writeNew(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: choose another name, or remove it", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(file)) // half a file is worse than none
	}
	return err
}
