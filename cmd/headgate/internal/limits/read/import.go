// SPDX-License-Identifier: Apache-2.0

package read

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/dynamicconfig"
)

func newImport() *cobra.Command {
	var from, to string
	names := strings.Join(limitsfile.Importers(), ", ")
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
			read := limitsfile.Importer(from)
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
	name, data, err := limitsfile.Read(cmd.InOrStdin(), file)
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
	if err := limitsfile.WriteNew(to, limits); err != nil {
		return fmt.Errorf("limits import: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: written, rules: %d\n", to, len(s.Rules()))
	return nil
}
