// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/glob"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
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
	keys := make([]string, len(s.content.Rules))
	for i := range s.content.Rules {
		keys[i] = s.content.Rules[i].Key
	}
	hidden := glob.Hidden(keys)
	for _, part := range parts {
		p := strictyaml.Problems{Text: part.origin.text}
		for i, r := range part.content.Rules {
			if text, ok := hidden[first+i]; ok && text != r.Key { // of two rules with one key, Parse says more
				p.Add(part.content.Places[i], "rule %[1]s is never used: %[2]s stands before it and matches all of its keys: move %[1]s above %[2]s, or remove it", message.Quote(r.Key), message.Quote(text))
			}
			if strange := glob.Strange(r.Key); strange != "" {
				p.Add(part.content.Places[i], "rule %s: key: %s", message.Quote(r.Key), strange)
			}
			if text := build.TooCostly(&r); text != "" {
				p.Add(part.content.Places[i], "rule %s: %s", message.Quote(r.Key), text)
			}
		}
		first += len(part.content.Rules)
		p.Each(func(at strictyaml.Mark, message, source string) {
			all = append(all, &Error{Name: part.origin.name, Line: at.Line, Column: at.Column, Message: message, Source: source})
		})
	}
	return all
}
