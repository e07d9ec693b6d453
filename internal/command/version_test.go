// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/buildinfo"
)

func TestVersionNamesProgramAndCommit(t *testing.T) {
	info := buildinfo.Info{Version: "v1.2.3", Revision: "0123456789abcdef", Modified: true, Go: "go1.26"}
	if got, want := version("headgate", info), "headgate v1.2.3, commit 0123456789ab, with local changes, go1.26 "; !strings.HasPrefix(got, want) {
		t.Errorf("version is %q, want %q", got, want)
	}
	if got := version("headgate", buildinfo.Info{Version: "(devel)", Go: "go1.26"}); !strings.HasPrefix(got, "headgate (devel), go1.26 ") {
		t.Errorf("version of nothing is %q", got)
	}
}

func TestTheFlagVersionSaysWhatTheCommandSays(t *testing.T) {
	var out [2]bytes.Buffer
	for i, arg := range []string{"version", "--version"} {
		root := Root(&cobra.Command{Use: "headgate"})
		root.SetArgs([]string{arg})
		root.SetOut(&out[i])
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
	}
	if said := out[0].String(); said == "" || out[1].String() != said {
		t.Errorf("%q and %q", said, out[1].String())
	}
}
