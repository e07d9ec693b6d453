// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import "github.com/headgate/headgate/dynamicconfig/internal/glob"

// Glob is a pattern of keys, as rules have it. Use CompileGlob. It does not change.
type Glob struct{ of *glob.Glob }

// CompileGlob reads a pattern. The error says what is wrong with it.
func CompileGlob(pattern string) (Glob, error) {
	g, err := glob.Compile(pattern)
	return Glob{g}, err
}

// Match reports whether g is for key.
func (g Glob) Match(key string) bool { return g.of.Match(key) }

// Covers reports whether g is for all keys that other is for. It may say no where that takes
// long to tell.
func (g Glob) Covers(other Glob) bool { return g.of.Covers(other.of) }
