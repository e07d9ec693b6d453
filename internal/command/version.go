// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(program string) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say what was built, from which commit, with which Go",
		Example: "  " + program + " version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version(program, info))
			return err
		},
	}
}

// version is one line about a program and its info, which may be nil.
func version(program string, info *debug.BuildInfo) string {
	number, commit, changed := "(devel)", "", ""
	if info != nil {
		if info.Main.Version != "" {
			number = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = ", commit " + s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = ", with local changes"
			}
		}
	}
	return fmt.Sprintf("%s %s%s%s, %s %s/%s", program, number, commit, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
