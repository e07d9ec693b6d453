// SPDX-License-Identifier: Apache-2.0

// Package message has what messages about a configuration share: how they quote what a person
// wrote, and how they say what to write instead.
//
// Out of scope: what is wrong, and where.
package message

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/spelling"
)

// OneOf joins words as "a, b or c".
func OneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Quote puts text from outside between quotes for a message: in one line,
// escaped, and cut to a length that fits.
func Quote(text string) string {
	const most = 60
	if len(text) > most {
		return fmt.Sprintf("%q...", text[:most])
	}
	return strconv.Quote(text)
}

// Suggest says which of the known names may have been meant.
func Suggest(name string, known []string) string {
	if best := spelling.Nearest(name, known); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "use " + OneOf(known)
}
