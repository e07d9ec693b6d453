// SPDX-License-Identifier: Apache-2.0

package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/rollout"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon"
)

func newApply() *cobra.Command {
	var c changing
	var w rollout.Watch
	var staged rollout.Steps
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Make a file the limits of a database, as a new version",
		Long: `apply checks the file as limits check does, prints which rules and fields it changes, and
stores it as the newest version of the database. Daemons with this database follow within a
second. A file with a mistake changes nothing. The first apply makes the database, in a
directory that there is.

Of two changes at the same time, one is stored, and the other is refused. With --base, a
change is refused if anybody has stored a version since the one that you looked at.

With --watch, apply asks the decider at --admin every two seconds what is rejected of the keys whose
limits change. With --roll-back-above, it takes the change back if that is too much, and fails.

With --enforce 10,50,100, apply makes the change in steps, and watches each for --every. At the
first step, the rules that change refuse 10% of what is over their limits and let the rest
through, which may be more than the limits before let through. The last step is the file as it
is. If a step rejects more than --roll-back-above, all steps are taken back. What has no part
that is enforced is in force from the first step: slots in flight, rules that are removed, and
other sections than limits. If apply is stopped, the step that it is at stays.

If apply removes a glob, makes a limit less than half, denies unmatched keys, or ends an override
that holds and is not in the file, it asks first; --yes is for scripts.`,
		Example: `  headgate limits apply --limits-db /var/lib/headgate limits.yaml -m "first limits"
  headgate limits apply --limits-db /var/lib/headgate limits.yaml --dry-run -o json
  headgate limits apply --limits-db /var/lib/headgate limits.yaml --base 7 -m "orders: 200/s for the sale"
  headgate limits apply --admin 10.0.0.7:7936 limits.yaml -m "100/s is enough" --watch 5m --roll-back-above 5%
  headgate limits apply --admin 10.0.0.7:7936 limits.yaml -m "50/s is enough" --enforce 10,50,100 --every 5m --roll-back-above 5%`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				if err := errors.Join(c.CheckDirectory(), c.reasoned(), staged.Check(&c.Admin, &w), w.Check(&c.Admin, staged.On())); err != nil {
					return err
				}
				s, found := limitsfile.CheckFile(cmd.InOrStdin(), args[0], c.also)
				if s == nil {
					found.Tell(cmd.ErrOrStderr())
					return fmt.Errorf("%s cannot be used, and nothing was changed", args[0])
				}
				on, err := limitsdb.Newest(ctx, db)
				if err != nil {
					return err
				}
				old := usable(on)
				why := endedOverrides(old, s, time.Now())
				if staged.On() {
					return c.staged(ctx, cmd, db, &w, &staged, on, old, s, why)
				}
				if err := c.store(ctx, cmd, db, on, old, s, why...); err != nil || !w.On() || c.dryRun {
					return err
				}
				return c.watched(ctx, c.progress(cmd), db, &w, on)
			})
		},
	}
	c.flags(cmd)
	w.Flags(cmd.Flags())
	staged.Flags(cmd.Flags())
	return cmd
}

// endedOverrides says which overrides of old, which may be nil, hold now and are not in s, so that s ends them.
// For example, a file from version control lacks the overrides that operators made last night.
func endedOverrides(old, s *dynamicconfig.Snapshot, now time.Time) (why []string) {
	if old == nil {
		return nil
	}
	kept := s.Overrides()
	for _, o := range old.OverrideStates(now) {
		same := func(k dynamicconfig.Override) bool { return k.All == o.All && k.Key == o.Key && k.Bypass == o.Bypass }
		if !o.Ended && o.Idle == "" && !slices.ContainsFunc(kept, same) {
			why = append(why, fmt.Sprintf("the %s ends, which the file does not have: %s; headgate limits export prints it", o.Name(), o.String()))
		}
	}
	return why
}

// staged makes s the limits in steps, in the place of before, whose limits are from, or nil if they are not usable.
// why are the dangers that the caller knows.
func (c *changing) staged(ctx context.Context, cmd *cobra.Command, db history.Store, w *rollout.Watch, steps *rollout.Steps, before history.Version, from, s *dynamicconfig.Snapshot, why []string) error {
	if from == nil || before.Number == 0 {
		return fmt.Errorf("--enforce: there are no limits that the change could be taken back to: apply the file without it (%s)", before.Name())
	}
	text, err := steps.First(from, s)
	if err != nil {
		return err
	}
	message := c.message
	c.message = steps.Message(message, 0)
	first, err := c.checked(cmd, from, "the first step", text)
	if err != nil {
		return err
	}
	if err := c.store(ctx, cmd, db, before, from, first, why...); err != nil || c.dryRun {
		return err
	}
	stored, err := limitsdb.Newest(ctx, db)
	if err != nil || stored.Number != before.Number+1 {
		return err
	}
	asked, err := c.Admin.Client()
	if err != nil {
		return err
	}
	if err := steps.Run(ctx, c.progress(cmd), adminclient.Store{Client: asked}, *w, before, stored, s, message); err != nil {
		return err
	}
	stored, err = limitsdb.Newest(ctx, db)
	c.done.Version, c.done.Changes = stored.Number, changesOf(dynamicconfig.Diff(from, s))
	return err
}

// watched watches the version that was stored after before, if one was.
func (c *changing) watched(ctx context.Context, out io.Writer, db daemon.LimitsDB, w *rollout.Watch, before history.Version) error {
	stored, err := limitsdb.Newest(ctx, db)
	if err != nil || stored.Number != before.Number+1 {
		return err
	}
	if before.Number == 0 {
		fmt.Fprintln(out, "not watched: these are the first limits, and there are none to go back to")
		return nil
	}
	asked, err := c.Admin.Client()
	if err != nil {
		return err
	}
	return w.Run(ctx, out, adminclient.Store{Client: asked}, before, stored)
}
