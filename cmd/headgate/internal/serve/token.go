// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/daemon/callers"
)

func newToken() *cobra.Command {
	return &cobra.Command{
		Use:   "token",
		Short: "Make a bearer token for a program, and what a policy has of it",
		Long: `token makes a new random token. Give the first line to the program, which sends it as
"Authorization: Bearer TOKEN", over TLS only. Put the second line into the tokens of a
caller in the file of serve --policy or --operators: the token cannot be found out from it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token := rand.Text()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", token, callers.Hash(token))
			return err
		},
	}
}
