// SPDX-License-Identifier: Apache-2.0

package filewatch

import (
	"io/fs"
	"os"
	"path/filepath"
)

// glance returns what the system says of the files at paths, and of those in a path that is
// a directory, without reading them; nil for a path at which nothing is.
func glance(paths []string) (all []fs.FileInfo) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			all = append(all, nil)
			continue
		}
		all = append(all, info)
		if !info.IsDir() {
			continue
		}
		entries, _ := os.ReadDir(path) // in the order of their names
		for _, e := range entries {
			info, err := os.Stat(filepath.Join(path, e.Name()))
			if err != nil {
				info = nil
			}
			all = append(all, info)
		}
	}
	return all
}

// unchanged reports whether a and b, either of which may be nil, describe one file that was not written between the two looks.
func unchanged(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
