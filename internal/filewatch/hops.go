// SPDX-License-Identifier: Apache-2.0

package filewatch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks bounds the links that one path leads over, as the system does.
const maxLinks = 40

// hops returns the names that path, which is absolute, leads over: each link, the
// directories that they are in, and the file, which need not exist. A change of any of
// them may change what is read at path.
func hops(path string) []string {
	names, rest, at := []string{}, strings.Split(strings.Trim(path, string(filepath.Separator)), string(filepath.Separator)), string(filepath.Separator)
	if v := filepath.VolumeName(path); v != "" {
		at, rest = v+at, rest[1:]
	}
	for links := 0; len(rest) > 0; {
		name := filepath.Join(at, rest[0])
		rest = rest[1:]
		if name == at { // ".": nothing, and ".." of the root
			continue
		}
		target, err := os.Readlink(name)
		if err != nil || links == maxLinks { // no link, or nothing
			at = name
			if len(rest) <= 1 {
				names = append(names, name)
			}
			continue
		}
		links++
		names = append(names, filepath.Dir(name), name)
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
		}
		rest = append(strings.Split(strings.Trim(target, string(filepath.Separator)), string(filepath.Separator)), rest...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
