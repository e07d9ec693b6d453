// SPDX-License-Identifier: Apache-2.0

package glob

// maxCompared bounds the bytes of patterns and keys that Hidden compares, for many globs that
// begin alike: about a second.
const maxCompared = 30_000_000

// Hidden are the globs among patterns that no key finds, by their numbers: each with an
// earlier glob that matches all of its keys. It leaves out exact keys, which win wherever
// they stand, and patterns that do not compile. It stops where that takes too long.
func Hidden(patterns []string) map[int]string {
	found := make(map[int]string)
	earlier := make(map[string][]numberedGlob) // by what their keys begin with
	compared := 0
	for i := range patterns {
		g, err := Compile(patterns[i])
		if err != nil || g.Exact() {
			continue
		}
		own := g.Prefix()
		sample := g.sample()
		for n := range len(own) + 1 {
			for _, wide := range earlier[own[:n]] {
				if compared += 8 + len(sample)*len(wide.glob.segments[len(wide.glob.segments)/2].sets); compared > maxCompared {
					return found
				}
				if _, already := found[i]; already || !wide.glob.Match(sample) {
					continue
				}
				yes, work := wide.glob.covers(g)
				if compared += work; yes {
					found[i] = patterns[wide.rule]
				}
			}
		}
		if _, hidden := found[i]; !hidden { // what hides it hides what it would hide
			earlier[own] = append(earlier[own], numberedGlob{i, g})
		}
	}
	return found
}
