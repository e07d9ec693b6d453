// SPDX-License-Identifier: Apache-2.0

package command

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionNamesProgramAndCommit(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
	}
	if got, want := version("headgate", info), "headgate v1.2.3, commit 0123456789ab, with local changes, go"; !strings.HasPrefix(got, want) {
		t.Errorf("version is %q, want %q", got, want)
	}
	if got := version("headgate", nil); !strings.HasPrefix(got, "headgate (devel), go") {
		t.Errorf("version of nothing is %q", got)
	}
}
