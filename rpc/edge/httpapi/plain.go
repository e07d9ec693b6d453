// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// names are those of all fields of all bodies. A name's index is its bit in the
// set of an object's fields.
var names = [...]string{"key", "cost", "max_wait_ms", "requests", "all_or_nothing", "reservation"}

// plain returns what another JSON library could read differently: a field that an
// object has twice, a field name in other letters, such as Key, and half of a
// surrogate pair. body is valid JSON that decode has read, so it only has known
// fields, in any letters.
func plain(body []byte) error {
	var seen []uint8 // of each open object or array, the fields that it has
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			seen = append(seen, 0)
		case '}', ']':
			seen = seen[:len(seen)-1]
		case '"':
			end := i + 1 + closing(body[i+1:])
			text := body[i : end+1]
			i = end
			if half := loneSurrogate(text); half != "" {
				return fmt.Errorf("%s is half of a surrogate pair: send both halves, or the character itself", half)
			}
			if after := bytes.TrimLeft(body[i+1:], " \t\r\n"); len(after) == 0 || after[0] != ':' {
				continue // a value
			}
			if err := isNew(text, &seen[len(seen)-1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// closing is where the string ends whose opening quote stands before text.
func closing(text []byte) int {
	for i := 0; ; i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
}

// isNew adds the field name, which is in quotes, to those that an object has.
func isNew(quoted []byte, seen *uint8) error {
	var name string
	if err := json.Unmarshal(quoted, &name); err != nil {
		return err
	}
	for i, known := range names {
		switch {
		case name != known:
		case *seen&(1<<i) != 0:
			return fmt.Errorf("%s is there twice", name)
		default:
			*seen |= 1 << i
			return nil
		}
	}
	return fmt.Errorf("unknown field %q: write names in small letters", name)
}

// loneSurrogate is the first escape in text that is half of a surrogate pair
// without the other half; empty if there is none.
func loneSurrogate(text []byte) string {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if i++; text[i] != 'u' {
			continue
		}
		high, rest := strings.ToLower(string(text[i+1:i+5])), text[i+5:]
		switch {
		case high < "d800" || high > "dfff":
			i += 4
		case high < "dc00" && len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' && isLow(rest[2:6]):
			i += 4 + 6
		default:
			return `\u` + high
		}
	}
	return ""
}

// isLow reports whether four digits are the second half of a surrogate pair.
func isLow(digits []byte) bool {
	low := strings.ToLower(string(digits))
	return low >= "dc00" && low <= "dfff"
}
