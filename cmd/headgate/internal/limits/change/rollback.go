// SPDX-License-Identifier: Apache-2.0

package change

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon"
)

func newRollback() *cobra.Command {
	var c changing
	cmd := &cobra.Command{
		Use:   "rollback [VERSION]",
		Short: "Take changes of a database back",
		Long: `rollback stores the text of an earlier version as a new one, and prints what that changes.
Without a VERSION, it takes back the newest change. The history keeps all of them, so a
rollback can be taken back too. If the newest change was a rollback, if several changes are taken
back at once, or if a limit becomes less than half, rollback asks first; --yes is for scripts.`,
		Example: `  headgate limits rollback --limits-db /var/lib/headgate
  headgate limits rollback --limits-db /var/lib/headgate 7 -m "the sale is over" --yes`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.CompleteVersions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.NoFile(cmd, args, "put its earlier text back from where you keep it, and daemons follow"); err != nil {
				return err
			}
			return c.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				on, err := limitsdb.At(ctx, db, 0)
				if err != nil {
					return err
				}
				number := on.Number - 1
				if len(args) == 1 {
					if number, err = strconv.ParseInt(args[0], 10, 64); err != nil || number < 1 {
						return fmt.Errorf("%q is no version: write its number, as in 7", args[0])
					}
				} else if number == 0 {
					return errors.New("version 1 is the only one: there is nothing to take back")
				}
				to, err := db.Get(ctx, number)
				if err != nil {
					return err
				}
				if to.Text == on.Text {
					c.done.Version = on.Number
					fmt.Fprintf(c.people(cmd), "nothing to change: version %d has the text of version %d\n", on.Number, number)
					return nil
				}
				wanted, err := to.Parse()
				if err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), err)
					return fmt.Errorf("%s cannot be used", to.Name())
				}
				if c.message == "" {
					c.message = "roll back to " + to.Name()
				}
				var why []string
				if n := on.Number - number; n > 1 {
					why = []string{fmt.Sprintf("%d changes are taken back at once", n)}
				} else if len(args) == 0 && tookBack(ctx, db, on) {
					why = []string{fmt.Sprintf("version %d took version %d back, and this puts it in force again: to go farther back, write a version", on.Number, number)}
				}
				return c.store(ctx, cmd, db, on, usable(on), wanted, why...)
			})
		},
	}
	c.flags(cmd)
	return cmd
}

// tookBack reports whether v took the change before it back, as a watched change does by itself.
func tookBack(ctx context.Context, db history.Store, v history.Version) bool {
	if v.Number < 3 {
		return false
	}
	earlier, err := db.Get(ctx, v.Number-2)
	return err == nil && earlier.Text == v.Text // else it was pruned: nobody knows
}
