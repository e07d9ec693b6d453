// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon"
)

func newLimitsApply() *cobra.Command {
	var c changing
	var w changeWatch
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Make a file the limits of a database, as a new version",
		Long: `apply checks the file as limits check does, prints which rules and fields it changes, and
stores it as the newest version of the database. Daemons with this database follow within a
second. A file with a mistake changes nothing. The first apply makes the database.

Of two changes at the same time, one is stored, and the other is refused. With --base, a
change is refused if anybody has stored a version since the one that you looked at.

With --watch, apply asks the decider at --admin every two seconds what is rejected of the keys whose
limits change. With --roll-back-above, it takes the change back if that is too much, and fails.

If apply removes a glob, makes a limit less than half or denies unmatched keys, it asks first; --yes
is for scripts.`,
		Example: `  headgate limits apply --limits-db /var/lib/headgate limits.yaml -m "first limits"
  headgate limits apply --limits-db /var/lib/headgate limits.yaml --dry-run
  headgate limits apply --limits-db /var/lib/headgate limits.yaml --base 7 -m "orders: 200/s for the sale"
  headgate limits apply --admin 10.0.0.7:9090 limits.yaml -m "100/s is enough" --watch 5m --roll-back-above 5%`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				if err := errors.Join(c.reasoned(), w.check(&c.limitsDB)); err != nil {
					return err
				}
				s := checkFile(cmd, args[0], c.also)
				if s == nil {
					return fmt.Errorf("%s cannot be used, and nothing was changed", args[0])
				}
				on, err := newest(ctx, db)
				if err != nil {
					return err
				}
				if err := c.storeChecked(ctx, cmd, db, on, s); err != nil || w.length == 0 || c.dryRun {
					return err
				}
				return c.watched(ctx, cmd.OutOrStdout(), db, &w, on)
			})
		},
	}
	c.flags(cmd)
	w.flags(cmd.Flags())
	return cmd
}

// watched watches the version that took the place of before, if one did.
func (c *changing) watched(ctx context.Context, out io.Writer, db daemon.LimitsDB, w *changeWatch, before history.Version) error {
	stored, err := newest(ctx, db)
	if err != nil || stored.Number != before.Number+1 {
		return err
	}
	if before.Number == 0 {
		fmt.Fprintln(out, "not watched: these are the first limits, and there are none to go back to")
		return nil
	}
	asked, err := c.admin.caller()
	if err != nil {
		return err
	}
	return w.run(ctx, out, adminStore{asked}, before, stored)
}

func newLimitsRollback() *cobra.Command {
	var c changing
	cmd := &cobra.Command{
		Use:   "rollback [VERSION]",
		Short: "Take changes of a database back",
		Long: `rollback stores the text of an earlier version as a new one, and prints what that changes.
Without a VERSION, it takes back the newest change. The history keeps all of them, so a
rollback can be taken back too. If it takes several changes back at once, or a limit becomes less
than half, rollback asks first; --yes is for scripts.`,
		Example: `  headgate limits rollback --limits-db /var/lib/headgate
  headgate limits rollback --limits-db /var/lib/headgate 7 -m "the sale is over" --yes`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeVersions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				on, err := at(ctx, db, 0)
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
					fmt.Fprintf(cmd.OutOrStdout(), "nothing to change: version %d has the text of version %d\n", on.Number, number)
					return nil
				}
				wanted, err := to.Parse()
				if err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), err)
					return fmt.Errorf("%s cannot be used by this release", to.Name())
				}
				if c.message == "" {
					c.message = "roll back to " + to.Name()
				}
				var why []string
				if n := on.Number - number; n > 1 {
					why = []string{fmt.Sprintf("%d changes are taken back at once", n)}
				}
				return c.storeChecked(ctx, cmd, db, on, wanted, why...)
			})
		},
	}
	c.flags(cmd)
	return cmd
}
