// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/edit"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/recent"
)

// Steps makes a change in steps: the rules that change are enforced for a larger part at
// each step, and for all of it at the last.
type Steps struct {
	steps    []string // as given
	every    time.Duration
	percents []float64
}

// Flags adds the flags of the steps.
func (s *Steps) Flags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.steps, "enforce", nil, "apply the change in steps, in which the rules that change are enforced for these `percents`, as in 10,50,100; needs --admin")
	flags.DurationVar(&s.every, "every", 5*time.Minute, "with --enforce, how long a step is watched, at most 1h")
}

// On reports whether the change is made in steps.
func (s *Steps) On() bool { return len(s.steps) > 0 }

// Check refuses steps that make no sense, and keeps what they mean for Run. d stores each step, and
// w watches it.
func (s *Steps) Check(d *adminclient.Decider, w *Watch) error {
	if len(s.steps) == 0 {
		return nil
	}
	s.percents = nil
	least := 0.0
	for _, text := range s.steps {
		p, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), "%"), 64)
		if err != nil || !(p > least && p <= 100) {
			return fmt.Errorf("--enforce %s: write percentages that grow, from above 0 to 100, as in 10,50,100", strings.Join(s.steps, ","))
		}
		s.percents, least = append(s.percents, p), p
	}
	switch {
	case least < 100:
		return fmt.Errorf("--enforce %s: the last step is 100, which is the file as it is", strings.Join(s.steps, ","))
	case w.length != 0:
		return errors.New("--watch: with --enforce, each step is watched: say for how long with --every")
	case s.every < watchFrom+time.Second || s.every > recent.Hour:
		return fmt.Errorf("--every %v: a step takes from %v to %v", s.every, watchFrom+time.Second, recent.Hour)
	case d.Address == "":
		return errors.New("--enforce makes the change in steps: say which decider to ask what is rejected, as in --admin 10.0.0.7:7936")
	}
	return nil
}

// First returns the text of the first step from one configuration to another.
func (s *Steps) First(from, wanted *dynamicconfig.Snapshot) (string, error) {
	return edit.Enforce(from, wanted, s.percents[0])
}

// Run takes the change from before to wanted through the steps after the first, which is
// stored. The error says that it was taken back, or at which step it stands.
func (s *Steps) Run(ctx context.Context, out io.Writer, store adminclient.Store, w Watch, before, stored history.Version, wanted *dynamicconfig.Snapshot, message string) error {
	from, err := before.Parse()
	if err != nil {
		return err
	}
	w.length = s.every
	for i, percent := range s.percents {
		if i > 0 {
			text, err := edit.Enforce(from, wanted, percent)
			if err != nil {
				return err
			}
			if text != stored.Text { // else no rule is enforced for more than before
				if stored, err = store.Append(ctx, history.Change{Base: stored.Number, Seen: stored.Fingerprint, Text: text, Message: s.Message(message, i)}); err != nil {
					return fmt.Errorf("the step to %v%%, which was not done: %w", percent, err)
				}
			}
			fmt.Fprintf(out, "version %d is stored: %s\n", stored.Number, s.Message(message, i))
		}
		if err := w.Run(ctx, out, store, before, stored); err != nil {
			return err
		}
		if ctx.Err() != nil && i < len(s.percents)-1 {
			return fmt.Errorf("stopped at step %d of %d: version %d enforces what changed for %v%%. Apply the file again to go on, or take the change back: headgate limits rollback %d",
				i+1, len(s.percents), stored.Number, percent, before.Number)
		}
	}
	return nil
}

// Message returns the message of a step, of which 0 is the first.
func (s *Steps) Message(message string, step int) string {
	return fmt.Sprintf("%s (step %d of %d: enforced for %v%%)", message, step+1, len(s.percents), s.percents[step])
}
