// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"embed"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed scenarios
var builtin embed.FS

// Names are the scenarios that come with headgate, sorted.
func Names() []string {
	entries, err := builtin.ReadDir("scenarios")
	if err != nil {
		return nil // it is embedded
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	return names
}

// Load returns the scenario of that name, or the one in the file at that
// path, which has a / or ends in .yaml or .yml.
func Load(name string) (*Scenario, error) {
	if strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read scenario: %w", err)
		}
		return Parse(name, data, func(file string) (io.ReadCloser, error) {
			return os.Open(filepath.Join(filepath.Dir(name), file))
		})
	}
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("there is no scenario %q: use the path of a file, or one of %s", name, strings.Join(Names(), ", "))
	}
	file := path.Join("scenarios", name+".yaml")
	data, err := builtin.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, data, func(trace string) (io.ReadCloser, error) {
		return builtin.Open(path.Join("scenarios", trace))
	})
}
