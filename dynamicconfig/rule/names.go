// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
)

var (
	modeNames      = []string{"disabled", "old", "old-shadow-new", "new-shadow-old", "new"}
	fallbackNames  = []string{"even", "open", "closed", "safe"}
	unmatchedNames = []string{"allow", "deny", "rule"}
)

// ModeNames are the words for the modes, in their order.
func ModeNames() []string { return slices.Clone(modeNames) }

// FallbackNames are the words for the fallbacks, in their order.
func FallbackNames() []string { return slices.Clone(fallbackNames) }

// UnmatchedNames are the words for each Unmatched, in their order.
func UnmatchedNames() []string { return slices.Clone(unmatchedNames) }

// Unmatched says what happens to a key that no rule matches.
type Unmatched uint8

const (
	// UnmatchedAllow allows every event of the key. It is the default.
	UnmatchedAllow Unmatched = iota
	// UnmatchedDeny allows none.
	UnmatchedDeny
	// UnmatchedRule gives the key a rule of its own.
	UnmatchedRule
)

// String is the word that the config file uses, or `mode(7)` for a Mode
// that does not exist.
func (m Mode) String() string { return nameOf("mode", modeNames, uint8(m)) }

// String is the word that the config file uses, or `fallback(7)` for a
// Fallback that does not exist.
func (f Fallback) String() string { return nameOf("fallback", fallbackNames, uint8(f)) }

// String is the word that the config file uses, or `unmatched(7)` for an
// Unmatched that does not exist.
func (u Unmatched) String() string { return nameOf("unmatched", unmatchedNames, uint8(u)) }

// ParseMode is the inverse of Mode.String. Its error lists the modes.
func ParseMode(name string) (Mode, error) {
	i, err := parseName("mode", modeNames, name)
	return Mode(i), err
}

// ParseFallback is the inverse of Fallback.String. Its error lists the
// fallbacks.
func ParseFallback(name string) (Fallback, error) {
	i, err := parseName("fallback", fallbackNames, name)
	return Fallback(i), err
}

// MarshalText implements encoding.TextMarshaler. A Mode that does not exist
// is an error.
func (m Mode) MarshalText() ([]byte, error) { return marshalName("mode", modeNames, uint8(m)) }

// MarshalText implements encoding.TextMarshaler. A Fallback that does not
// exist is an error.
func (f Fallback) MarshalText() ([]byte, error) {
	return marshalName("fallback", fallbackNames, uint8(f))
}

// UnmarshalText implements encoding.TextUnmarshaler as ParseMode does. On
// error m is unchanged.
func (m *Mode) UnmarshalText(text []byte) error {
	v, err := ParseMode(string(text))
	if err == nil {
		*m = v
	}
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler as ParseFallback does.
// On error f is unchanged.
func (f *Fallback) UnmarshalText(text []byte) error {
	v, err := ParseFallback(string(text))
	if err == nil {
		*f = v
	}
	return err
}

func nameOf(kind string, names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}

func parseName(kind string, names []string, name string) (uint8, error) {
	if i := slices.Index(names, name); i >= 0 {
		return uint8(i), nil
	}
	return 0, fmt.Errorf("there is no %s %s: use %s", kind, message.Quote(name), message.OneOf(names))
}

func marshalName(kind string, names []string, i uint8) ([]byte, error) {
	if int(i) >= len(names) {
		return nil, fmt.Errorf("there is no %s: use %s", nameOf(kind, names, i), message.OneOf(names))
	}
	return []byte(names[i]), nil
}
