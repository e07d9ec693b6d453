// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/history"
)

// A column of a version has its fingerprint, a slash, and a checksum of its text, as databases may have
// none of their own: one digit that the disk has changed would be another limit. Versions of earlier
// releases have the fingerprint alone, and these releases take all of the column for it.

// seal returns the column of v.
func seal(v history.Version) string { return v.Fingerprint + "/" + checksum(v.Text) }

// unseal takes the column apart. The checksum is empty if there is none.
func unseal(column string) (fingerprint, sum string) {
	fingerprint, sum, _ = strings.Cut(column, "/")
	return fingerprint, sum
}

func checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
