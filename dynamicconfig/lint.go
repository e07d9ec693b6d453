// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// NewWarnings are the Warnings of next that before, which may be nil, does not have.
func NewWarnings(before, next *Snapshot) (all []*Error) {
	known := make(map[string]bool)
	if before != nil {
		for _, w := range before.Warnings() {
			known[w.Message] = true
		}
	}
	for _, w := range next.Warnings() {
		if !known[w.Message] {
			all = append(all, w)
		}
	}
	return all
}

// Warnings are what is legal and surely not meant, in the order of the text: globs whose keys
// all have an earlier rule, keys with characters that look like others, and costs that no
// event may have.
func (s *Snapshot) Warnings() []*Error {
	var all []*Error
	parts, first := s.parts, 0
	if parts == nil {
		parts = []*Snapshot{s}
	}
	hidden := s.content.Keys.Hidden(s.content.Rules)
	for _, part := range parts {
		p := strictyaml.Problems{Text: part.origin.text}
		part.content.Notes(hidden, first, func(i int, text string) { p.Add(part.content.Places[i], "%s", text) })
		first += len(part.content.Rules)
		p.Each(func(at strictyaml.Mark, message, source string) {
			all = append(all, &Error{Name: part.origin.name, Line: at.Line, Column: at.Column, Message: message, Source: source})
		})
	}
	return all
}
