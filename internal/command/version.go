// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/buildinfo"
)

func newVersion(program string) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say what was built, from which commit, with which Go",
		Example: "  " + program + " version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version(program, buildinfo.Read()))
			return err
		},
	}
}

// version is one line about a program and its info.
func version(program string, info buildinfo.Info) string {
	commit, changed := "", ""
	if info.Revision != "" {
		commit = ", commit " + info.Revision[:min(12, len(info.Revision))]
	}
	if info.Modified {
		changed = ", with local changes"
	}
	return fmt.Sprintf("%s %s%s%s, %s %s/%s", program, info.Version, commit, changed, info.Go, runtime.GOOS, runtime.GOARCH)
}
