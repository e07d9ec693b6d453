// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/admin/api/migrate"
	"github.com/headgate/headgate/internal/admin/api/versions"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/printable"
)

func newShadow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "See how migrations of algorithms go, and take them further or back",
		Long: `shadow is about rules that change their algorithm: those with migrate. While such a rule
is in a shadow mode, each decision is made by both algorithms, and one of them answers.`,
		Example: `  headgate shadow report --admin 10.0.0.7:7936
  headgate shadow advance --admin 10.0.0.7:7936 'orders:*'`,
		Args: command.NoSuch,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newShadowReport(),
		newShadowStep("advance", "Take a rule to the next mode of its migration", func(m *migrate.Migration) string { return m.Next }),
		newShadowStep("back", "Take a rule to the mode before", func(m *migrate.Migration) string { return m.Back }))
	return cmd
}

func newShadowReport() *cobra.Command {
	var a adminclient.Decider
	var o output.Form
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Say how the old and the new algorithm of each migration differ",
		Long: `report says of each rule that changes its algorithm how many tokens the two answered
differently, in which direction, and for which keys at which members. It counts since the
migration came into its mode, or a member started; the list has the keys that are in use now.
The verdict is advance below 1% of at least 1,000 tokens, or if the new algorithm only allows more
and all hosts together keep to the limit under it; back above 5%; and else wait.`,
		Example: `  headgate shadow report --admin 10.0.0.7:7936`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
				all, err := migrations(ctx, c, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				return o.Print(cmd.OutOrStdout(), all, func(w io.Writer) error { return printMigrations(w, all) })
			})
		},
	}
	a.Flags(cmd.Flags())
	o.Flags(cmd, "text")
	return cmd
}

// migrations asks for all migrations, and says on warn whose decisions they lack.
func migrations(ctx context.Context, c *adminclient.Client, warn io.Writer) ([]migrate.Migration, error) {
	var found migrate.Report
	err := c.Ask(ctx, http.MethodGet, "/v1/migrations", "", &found)
	if found.Silent > 0 {
		fmt.Fprintf(warn, "%s, so what was decided there is not counted\n", found.Silence)
	}
	return found.Migrations, err
}

func printMigrations(out io.Writer, all []migrate.Migration) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no rule changes its algorithm")
		return err
	}
	for _, m := range all {
		fmt.Fprintf(out, "%s  %s → %s  mode %s: %s, because %s\n", printable.Text(m.Rule), m.From, m.To, m.Mode, m.Verdict, m.Because)
		if len(m.Keys) == 0 {
			continue
		}
		w := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
		fmt.Fprintln(w, "  KEY\tHOST\tBOTH\tONLY OLD\tONLY NEW\tNEITHER")
		for _, k := range m.Keys {
			fmt.Fprintf(w, "  %s\t%s\t%d\t%d\t%d\t%d\n", printable.Text(k.Key), printable.Text(k.Host), k.Both, k.OnlyOld, k.OnlyNew, k.Neither)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if m.More > 0 {
			fmt.Fprintf(out, "  … and %d more, which differ less\n", m.More)
		}
	}
	return nil
}

func newShadowStep(name, short string, to func(m *migrate.Migration) string) *cobra.Command {
	var a adminclient.Decider
	var message string
	var force bool
	cmd := &cobra.Command{
		Use:   name + " RULE",
		Short: short,
		Long: short + `, in a database of limits. The modes are disabled, old,
old-shadow-new, new-shadow-old and new. A step that changes who answers needs the report's
verdict, or --force.`,
		Example: `  headgate shadow ` + name + ` --admin 10.0.0.7:7936 'orders:*' -m "a week without a difference"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
				all, err := migrations(ctx, c, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				for _, m := range all {
					if m.Rule != args[0] {
						continue
					}
					mode := to(&m)
					switch {
					case mode == "":
						which, algorithm := "first", m.From
						if name == "advance" {
							which, algorithm = "last", m.To
						}
						return fmt.Errorf("%s is in the %s mode, %s: to end the migration with %s, use headgate limits set '%s' --clear migrate --algorithm %s", m.Rule, which, m.Mode, algorithm, m.Rule, algorithm)
					case name == "advance" && m.Verdict != migrate.Advance && !force:
						return fmt.Errorf("%s, because %s; --force goes on nevertheless", m.Verdict, m.Because)
					}
					return stepTo(ctx, cmd.OutOrStdout(), c, m.Rule, mode, message)
				}
				return fmt.Errorf("no rule %q changes its algorithm: headgate shadow report lists those that do", args[0])
			})
		},
	}
	a.Flags(cmd.Flags())
	cmd.Flags().StringVarP(&message, "message", "m", "", "the `reason`, for the history")
	if name == "advance" {
		cmd.Flags().BoolVar(&force, "force", false, "go on against the verdict")
	}
	return cmd
}

// stepTo takes a rule to a mode, on top of the newest version.
func stepTo(ctx context.Context, out io.Writer, c *adminclient.Client, rule, mode, message string) error {
	newest, err := (adminclient.Store{Client: c}).Newest(ctx)
	if err != nil {
		return err
	}
	var done versions.Outcome
	query := url.Values{"rule": {rule}, "mode": {mode}, "message": {message}}
	err = c.Ask(ctx, http.MethodPost, "/v1/migrations/step?"+query.Encode(), "", &done, "If-Match", strconv.Quote(versions.Tag(newest.Number, newest.Fingerprint)))
	if err != nil {
		return err
	}
	if done.Version == 0 {
		return errors.New("nothing was changed")
	}
	for _, change := range done.Changes {
		fmt.Fprintln(out, change.Text)
	}
	fmt.Fprintf(out, "version %d is stored\n", done.Version)
	return nil
}
