// SPDX-License-Identifier: Apache-2.0

// Package markers replaces the parts of a document that a command generates,
// and leaves what people wrote around them alone:
//
//	<!-- make sim: summary begins -->
//	| generated | table |
//	<!-- make sim: summary ends -->
//
//	text, err := markers.Replace(text, "make sim", "summary", table)
//
// Out of scope: reading and writing files.
package markers

import (
	"fmt"
	"strings"
)

// Replace returns text with content between the markers of a command and a
// name, each on a line of its own. Content ends with a newline or is empty.
func Replace(text, command, name, content string) (string, error) {
	before, _, after, err := cut(text, command, name)
	if err != nil {
		return "", err
	}
	return before + content + after, nil
}

// Find returns what stands between the markers of a command and a name.
func Find(text, command, name string) (string, error) {
	_, content, _, err := cut(text, command, name)
	return content, err
}

// cut splits text after the first marker and before the second.
func cut(text, command, name string) (before, content, after string, err error) {
	begins := "<!-- " + command + ": " + name + " begins -->\n"
	ends := "<!-- " + command + ": " + name + " ends -->\n"
	before, rest, begun := strings.Cut(text, begins)
	content, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		return "", "", "", fmt.Errorf("there is no place for the %s: add the lines %q and %q", name, strings.TrimSpace(begins), strings.TrimSpace(ends))
	}
	return before + begins, content, ends + after, nil
}
