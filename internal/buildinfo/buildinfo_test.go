// SPDX-License-Identifier: Apache-2.0

package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestAllThatIsRecordedIsRead(t *testing.T) {
	for _, tc := range []struct {
		recorded *debug.BuildInfo
		want     Info
	}{
		{nil, Info{Version: "(devel)", Go: runtime.Version()}},
		{&debug.BuildInfo{}, Info{Version: "(devel)", Go: runtime.Version()}},
		{&debug.BuildInfo{
			Main:     debug.Module{Version: "v1.2.3"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
		}, Info{"v1.2.3", "0123456789abcdef", true, runtime.Version()}},
	} {
		if got := of(tc.recorded); got != tc.want {
			t.Errorf("%+v, want %+v", got, tc.want)
		}
	}
	if Read().Go != runtime.Version() {
		t.Errorf("%+v", Read())
	}
}
