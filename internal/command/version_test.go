// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"

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
