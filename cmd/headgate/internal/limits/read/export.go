// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/printable"
)

func newExport() *cobra.Command {
	var l limitsdb.DB
	var number int64
	var to string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print a version of a database as its author wrote it",
		Long: `export prints the whole text of a version, with its comments, and says on stderr which one it
is. Change the file, and give it to headgate limits apply, with the version as --base.`,
		Example: `  headgate limits export --limits-db /var/lib/headgate -o limits.yaml
  headgate limits export --limits-db /var/lib/headgate --version 7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				v, err := limitsdb.At(ctx, db, number)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s, by %s at %s\n", v.Name(), printable.Text(v.Author), v.Time.Format(time.RFC3339))
				if to != "" {
					return limitsfile.WriteNew(to, []byte(v.Text))
				}
				_, err = io.WriteString(cmd.OutOrStdout(), v.Text)
				return err
			})
		},
	}
	l.Flags(cmd.Flags())
	cmd.Flags().Int64Var(&number, "version", 0, "the `number` of the version (default the newest)")
	_ = cmd.RegisterFlagCompletionFunc("version", l.CompleteVersions)
	cmd.Flags().StringVarP(&to, "output", "o", "", "write to this `file`, which must not exist yet, and not to stdout")
	return cmd
}
