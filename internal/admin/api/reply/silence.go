// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/printable"
)

// Silence is which members did not answer.
type Silence struct {
	Silent  int      `json:"silent"`                   // how many members do not answer
	Members []string `json:"silent_members,omitempty"` // which
}

// SilenceOf is the Silence of members, each of which may be there several times.
func SilenceOf(members []string) Silence {
	members = slices.Compact(slices.Sorted(slices.Values(members)))
	return Silence{len(members), members}
}

// mostNamed bounds the members that String names.
const mostNamed = 5

// String is s in words, as in "10.0.0.7:7933 does not answer".
func (s Silence) String() string {
	names := printable.Text(strings.Join(s.Members[:min(len(s.Members), mostNamed)], ", "))
	switch {
	case len(s.Members) == 0: // a daemon of an earlier release names none
		return printable.Count(s.Silent, "member does not answer", "members do not answer")
	case len(s.Members) == 1:
		return names + " does not answer"
	case len(s.Members) > mostNamed:
		names += ", …"
	}
	return printable.Count(s.Silent, "", "members do not answer: ") + names
}
