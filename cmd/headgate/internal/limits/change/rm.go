// SPDX-License-Identifier: Apache-2.0

package change

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/edit"
)

func newRm() *cobra.Command {
	var c changing
	cmd := &cobra.Command{
		Use:   "rm {FILE | --limits-db DB} KEY...",
		Short: "Remove rules",
		Long: `rm removes the rules whose keys are exactly KEY, with the comment just above each, and leaves the
rest as it is. The keys then have the first glob that matches, or what unmatched says. For a
glob, rm asks first; --yes is for scripts.`,
		Example: `  headgate limits rm --limits-db /var/lib/headgate frontend:orders -m "the glob is enough"
  headgate limits rm limits.yaml 'batch:*' --yes`,
		ValidArgsFunction: c.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.in(cmd, args, func(text string, keys []string) (string, error) {
				if len(keys) == 0 {
					return "", errors.New("name a key; headgate limits list shows all")
				}
				for _, key := range keys {
					removed, err := edit.Remove(text, key)
					if errors.Is(err, edit.ErrNoRule) {
						s, err := dynamicconfig.Parse("limits", []byte(text))
						if err != nil {
							return "", err
						}
						return "", limitsdb.Missing(s, key)
					}
					if _, broken := errors.AsType[*dynamicconfig.Error](err); broken {
						return "", err
					}
					if err != nil {
						return "", fmt.Errorf("rule %q: %w", key, err)
					}
					text = removed
				}
				return text, nil
			})
		},
	}
	c.flags(cmd)
	return cmd
}
