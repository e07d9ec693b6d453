// SPDX-License-Identifier: Apache-2.0

// Package buildinfo says what a program was built from.
//
//	info := buildinfo.Read()
//	fmt.Println(info.Version, info.Revision) // v1.2.3 0123456789abcdef
//
// The go command records it in each program: see runtime/debug.ReadBuildInfo. Out of
// scope: how it is shown.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// Info is what a program was built from.
type Info struct {
	Version  string // of the module, such as v1.2.3; (devel) if unknown
	Revision string // commit; empty if unknown
	Modified bool   // there were changes that were not committed
	Go       string // version of Go
}

// Read returns the Info of this program.
func Read() Info {
	info, _ := debug.ReadBuildInfo()
	return of(info)
}

// of is the Info of what the go command recorded, which may be nil.
func of(recorded *debug.BuildInfo) Info {
	info := Info{Version: "(devel)", Go: runtime.Version()}
	if recorded == nil {
		return info
	}
	if recorded.Main.Version != "" {
		info.Version = recorded.Main.Version
	}
	for _, s := range recorded.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Revision = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	return info
}
