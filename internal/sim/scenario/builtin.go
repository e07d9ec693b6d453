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

// Groups of scenarios.
const (
	// Accuracy is those that docs/accuracy.md has tables of.
	Accuracy = "accuracy"
	// Asking is those in which hosts have few events, or costs differ much, so that
	// asking the owner pays.
	Asking = "asking"
)

// folders of the groups.
var folders = map[string]string{Accuracy: "scenarios", Asking: "scenarios/asking"}

// Names are the scenarios of groups that come with headgate, sorted; without
// groups, of all.
func Names(groups ...string) []string {
	var names []string
	for group, folder := range folders {
		if len(groups) > 0 && !slices.Contains(groups, group) {
			continue
		}
		entries, err := builtin.ReadDir(folder)
		if err != nil {
			continue // it is embedded
		}
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
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
	folder := folders[Accuracy]
	if strings.HasPrefix(name, Asking+"-") {
		folder = folders[Asking]
	}
	file := path.Join(folder, name+".yaml")
	data, err := builtin.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, data, func(trace string) (io.ReadCloser, error) {
		return builtin.Open(path.Join(folder, trace))
	})
}
