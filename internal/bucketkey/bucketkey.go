// SPDX-License-Identifier: Apache-2.0

// Package bucketkey makes keys of the names of quotaservice's buckets. The edge that
// answers quotaservice's clients and the import of quotaservice's configs make the
// same key of the same names. No two buckets have the same key.
//
// It knows no rules and no messages.
package bucketkey

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// maxKey is the longest key of a rule or a bucket, in bytes.
	maxKey = 1024
	// maxNamespace is the longest namespace in a key. It leaves room for names.
	maxNamespace = 512
)

// Of returns the key of a bucket: `namespace:name`.
//
// In the namespace, `:` is written as `%3A` and `%` as `%25`, because the first colon
// of a key ends it. A name that is too long for a key ends in `#` and the SHA-256
// hash of the whole name. A key fits also as a pattern, with each special byte
// escaped.
func Of(namespace, name string) string {
	if 2*(len(namespace)+len(name)) < maxNamespace && !strings.ContainsAny(namespace, ":%") {
		return namespace + ":" + name // nearly all are so
	}
	before := Namespace(namespace)
	return before + shortened(name, maxKey-escaped(before))
}

var escapes = strings.NewReplacer("%", "%25", ":", "%3A")

// Namespace returns what the keys of a namespace begin with, colon included.
func Namespace(namespace string) string {
	return shortened(escapes.Replace(namespace), maxNamespace) + ":"
}

// shortened is s if it is shorter than most, or a beginning of it and its hash, which
// is exactly so long: so no other name is the same.
func shortened(s string, most int) string {
	if escaped(s) < most {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	end := "#" + hex.EncodeToString(sum[:])
	n, room := 0, most-len(end)
	for n < len(s) && room >= width(s[n]) {
		room -= width(s[n])
		n++
	}
	begin := strings.ToValidUTF8(s[:n], "")
	return begin + strings.Repeat("#", most-escaped(begin)-len(end)) + end
}

// escaped is how many bytes s has in a pattern.
func escaped(s string) (bytes int) {
	for i := range len(s) {
		bytes += width(s[i])
	}
	return bytes
}

// width is how many bytes c has in a pattern.
func width(c byte) int {
	switch c {
	case '\\', '*', '?', '[':
		return 2
	}
	return 1
}
