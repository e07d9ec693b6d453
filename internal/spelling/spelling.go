// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the name that was meant. It does not know what the names are of, and
// keeps no state.
package spelling

import "strings"

const (
	// most is how many edits a name that was meant may be away. Of a name with fewer bytes than
	// short, two are half of it: one only.
	most  = 2
	short = 5
	// least is how many bytes of a name stand for it when nothing else is there.
	least = 3
)

// Nearest is the one of names that was most likely meant by typed: at most two
// edits away, or one if either is short, or its beginning, or typed with more behind it. Of names that are
// as near it is the first; empty when none is near.
func Nearest(typed string, names []string) string {
	best, fewest := "", most+1
	for _, name := range names {
		if joined(typed) == joined(name) {
			return name
		}
		edits := distance(typed, name)
		if begins(name, typed) || begins(typed, name) {
			edits = min(edits, 1)
		}
		if edits == most && min(len(typed), len(name)) < short {
			continue
		}
		if edits < fewest && edits < len(name) {
			best, fewest = name, edits
		}
	}
	return best
}

// joined is name without what joins its words, which are as different programs
// write them: maxKeys, max-keys and max_keys.
func joined(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

func begins(whole, part string) bool {
	return len(part) >= least && strings.HasPrefix(whole, part)
}

// distance is how many bytes must be added, removed, replaced or swapped with the next one to
// make b of a; more than most when their lengths alone say that it is too many.
func distance(a, b string) int {
	if apart := max(len(a)-len(b), len(b)-len(a)); apart > most {
		return apart
	}
	// Of the first i bytes of a: row is for i, above for i-1, and over for i-2.
	over, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		over, above, row = above, row, over
		row[0] = i + 1
		for j := range len(b) {
			replaced := above[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, row[j]+1, above[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], over[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
