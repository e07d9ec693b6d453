// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/headgate/headgate/internal/buildinfo"
)

func newMan() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "man",
		Short: "Write a manual page for each command",
		Long: `man writes a page for man(1) for this program and for each of its commands into a folder,
which it makes if need be. The Debian package and the archives of a release have the pages.
SOURCE_DATE_EPOCH sets the date that they show.`,
		Example: `  headgate man --to /usr/local/share/man/man1`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "headgate " + buildinfo.Read().Version, Manual: "headgate"}, to)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "write into this `folder`")
	_ = cmd.MarkFlagRequired("to")
	_ = cmd.MarkFlagDirname("to")
	return cmd
}
