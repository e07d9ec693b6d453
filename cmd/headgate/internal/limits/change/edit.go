// SPDX-License-Identifier: Apache-2.0

package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon"
)

func newEdit() *cobra.Command {
	var c changing
	cmd := &cobra.Command{
		Use:   "edit",
		Short: "Change the limits of a database in an editor",
		Long: `edit opens the newest version in the editor that $VISUAL or $EDITOR names, or in vi, and stores
what you save as a new version. Of each mistake it says where it is, and asks whether to edit
again. It prints what changes, and asks first if that is dangerous. A text that is not stored stays
in a file, whose name it prints.`,
		Example: `  EDITOR=nano headgate limits edit --limits-db /var/lib/headgate -m "orders: 200/s for the sale"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				if err := errors.Join(c.CheckDirectory(), c.reasoned()); err != nil {
					return err
				}
				on, err := limitsdb.Newest(ctx, db)
				if err != nil {
					return err
				}
				if err := on.Intact(); err != nil {
					return err
				}
				file, err := draft(on)
				if err != nil {
					return err
				}
				err = c.edit(ctx, cmd, db, on, file)
				if other, ok := errors.AsType[*history.Conflict](err); ok {
					return fmt.Errorf("%w; your text is in %s: write what changed since into it, for headgate limits apply --base %d", err, file, other.Newest)
				}
				if err != nil {
					return fmt.Errorf("%w; your text is in %s, for headgate limits apply --base %d", err, file, on.Number)
				}
				return os.Remove(file)
			})
		},
	}
	c.flags(cmd)
	return cmd
}

// draft writes the text of a version into a new file.
func draft(on history.Version) (file string, err error) {
	f, err := os.CreateTemp("", fmt.Sprintf("limits-%d-*.yaml", on.Number))
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(on.Text)
	return f.Name(), errors.Join(err, f.Close())
}

// edit has the file edited until it has no mistake, and stores it.
func (c *changing) edit(ctx context.Context, cmd *cobra.Command, db history.Store, on history.Version, file string) error {
	old := usable(on)
	for {
		if err := openEditor(ctx, cmd, file); err != nil {
			return err
		}
		_, text, err := limitsfile.Read(nil, file)
		if err != nil {
			return err
		}
		if string(text) == on.Text {
			c.done.Version = on.Number
			fmt.Fprintln(c.people(cmd), "nothing to change: the text is as it was")
			return nil
		}
		s, mistake := c.checked(cmd, old, "the text", string(text))
		if mistake == nil {
			return c.store(ctx, cmd, db, on, old, s)
		}
		answer, err := ask(cmd, "Edit again? [Y/n] ")
		if err != nil || strings.HasPrefix(strings.ToLower(answer), "n") {
			return mistake
		}
	}
}

// openEditor lets the user edit a file.
func openEditor(ctx context.Context, cmd *cobra.Command, file string) error {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	run := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file) // it may have arguments
	run.Stdin, run.Stdout, run.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := run.Run(); err != nil {
		return fmt.Errorf("the editor %q: %w: name another with EDITOR", editor, err)
	}
	return nil
}
