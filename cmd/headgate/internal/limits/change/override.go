// SPDX-License-Identifier: Apache-2.0

package change

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/edit"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/admin/api"
)

// overriding is what the commands override and bypass have in common.
type overriding struct {
	changing

	all, end     bool
	bypass       bool // the command is bypass
	lasts, until string
}

func (o *overriding) flags(cmd *cobra.Command) {
	o.changing.flags(cmd)
	cmd.Flags().Lookup("message").Usage = "the `reason`, for the override and for the history"
	cmd.Flags().Lookup("author").Usage = "the `name` of the author, for the override and for the history (default the operator whose token or certificate --admin gets, or the user that runs this)"
	cmd.Flags().BoolVar(&o.all, "all", false, "all rules, in place of a KEY")
	cmd.Flags().StringVar(&o.lasts, "for", "", "for how long, a `duration` such as 2h or 30m, at most 30d")
	cmd.Flags().StringVar(&o.until, "until", "", "until when, a `time` such as 06:00 or 2026-11-23T05:00:00Z, in place of --for")
	cmd.Flags().BoolVar(&o.end, "end", false, "end the override of KEY now")
}

func newOverride() *cobra.Command {
	var o overriding
	cmd := &cobra.Command{
		Use:   "override {FILE | --limits-db DB} {KEY | --all} {AMOUNT | --end}",
		Short: "Change a limit for a time, after which the change ends by itself",
		Long: `override changes the limit of a rule until a time. KEY is the key of a rule, such as
'frontend:*', or one key that a rule matches. AMOUNT is a factor such as 2x or 0.5x, or a limit
in the unit of the rule, such as 500/s. All hosts end the override by themselves when their
clocks reach the time; no bucket is refilled. An override or a bypass of the same KEY is replaced,
and --end ends both now. Overrides that have ended are removed from the text. If the limit of a pattern
or of all rules becomes less than half, override asks first; --yes is for scripts.`,
		Example: `  headgate limits override --limits-db /var/lib/headgate 'frontend:*' 2x --for 2h -m "the sale began early"
  headgate limits override --limits-db /var/lib/headgate frontend:scraper 5/s --for 1d -m "it reads all pages"
  headgate limits override --limits-db /var/lib/headgate 'frontend:*' --end -m "the sale is over"
  headgate limits override --limits-db /var/lib/headgate --all 1.5x --for 30m -m "a region is down"`,
		ValidArgsFunction: o.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args, func(rest []string) (string, error) {
				if len(rest) != 1 {
					return "", errors.New("say what the limit is to be: a factor, as in 2x, or a limit, as in 500/s")
				}
				return rest[0], nil
			})
		},
	}
	o.flags(cmd)
	return cmd
}

func newBypass() *cobra.Command {
	o := overriding{bypass: true}
	cmd := &cobra.Command{
		Use:   "bypass {FILE | --limits-db DB} {KEY | --all} [--end]",
		Short: "Let everything through for a time",
		Long: `bypass is override with the amount bypass: every event of the rule or key is let through, takes
no tokens, and is counted as bypassed. With --all, every event is but those of keys and rules with an
override of their own, which bypass names, and bypass asks first; --yes is for scripts. It ends by itself, and --end ends it now. An override of the same KEY
stays, and is back when the bypass ends.`,
		Example: `  headgate limits bypass --limits-db /var/lib/headgate batch:mail --for 30m -m "mail is a day late"
  headgate limits bypass --limits-db /var/lib/headgate --all --for 10m -m "orders are refused, we look for the cause" --yes
  headgate limits bypass --limits-db /var/lib/headgate --all --end -m "it was the gateway"`,
		ValidArgsFunction: o.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args, func(rest []string) (string, error) {
				if len(rest) != 0 {
					return "", errors.New("name one KEY, or --all")
				}
				return "bypass", nil
			})
		},
	}
	o.flags(cmd)
	return cmd
}

// run makes, replaces or ends an override. amount finds the new limit in the arguments after the
// key.
func (o *overriding) run(cmd *cobra.Command, args []string, amount func(rest []string) (string, error)) error {
	return o.in(cmd, args, func(text string, args []string) (string, error) {
		key := ""
		if !o.all {
			if len(args) == 0 || args[0] == "" {
				return "", errors.New("name the key of a rule, or one key, or --all")
			}
			key, args = args[0], args[1:]
		}
		now := time.Now()
		if o.end {
			if len(args) > 0 {
				return "", errors.New("--end takes one KEY, or --all, and no amount")
			}
			return edit.EndOverride(text, key, o.bypass, now)
		}
		said, err := amount(args)
		if err != nil {
			return "", err
		}
		made, err := o.made(cmd.Context(), key, said, now)
		if err != nil {
			return "", err
		}
		text, err = edit.Override(text, made, now)
		if err != nil {
			return "", err
		}
		return text, edit.Idle(text, key, o.bypass, now)
	})
}

// madeBy returns the author of an override: --author, or the operator that the decider knows by
// the token or certificate, or the user that runs this.
func (o *overriding) madeBy(ctx context.Context) (string, error) {
	if o.author == "" && o.Where == "" && o.Admin.Address != "" {
		c, err := o.Admin.Client()
		if err != nil {
			return "", err
		}
		var me api.Me
		if err := c.Ask(ctx, http.MethodGet, "/v1/me", "", &me); err != nil {
			return "", err
		}
		if me.Name != "" {
			return me.Name, nil
		}
	}
	return o.signs()
}

// made returns the override of key, or of all rules if key is empty.
func (o *overriding) made(ctx context.Context, key, amount string, now time.Time) (made dynamicconfig.Override, err error) {
	if _, err := rule.ParseOverride(amount); err != nil {
		return made, err
	}
	if o.message == "" {
		return made, errors.New("say why, with --message")
	}
	author, err := o.madeBy(ctx)
	if err != nil {
		return made, err
	}
	var until time.Time
	switch {
	case (o.lasts == "") == (o.until == ""):
		return made, errors.New("say when it ends, with --for 2h or --until 06:00")
	case o.lasts != "":
		lasts, err := dynamicconfig.ParseDuration(o.lasts)
		if err != nil {
			return made, fmt.Errorf("--for: %w", err)
		}
		until = now.Add(lasts).Truncate(time.Second)
	default:
		if until, err = timeToCome(o.until, now); err != nil {
			return made, err
		}
	}
	made, err = edit.NewOverride(key, amount, now, until)
	made.Author, made.Reason = author, o.message
	return made, err
}

// timeToCome reads a date and time, or a time of day, which is the next such time after now, where the user is.
func timeToCome(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return t, fmt.Errorf("--until %q: write it as in 06:00 or 2026-11-23T05:00:00Z", text)
	}
	at := func(days int) time.Time {
		return time.Date(now.Year(), now.Month(), now.Day()+days, t.Hour(), t.Minute(), 0, 0, now.Location())
	}
	if today := at(0); today.After(now) {
		return today.UTC(), nil
	}
	return at(1).UTC(), nil
}
