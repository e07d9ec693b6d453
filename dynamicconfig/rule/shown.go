// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig/internal/glob"
)

// shownHash is how many bytes of its hash stand for a private key.
const shownHash = 6

// keySalt is the key of the hashes that stand for private keys. It is replaced
// whole.
var keySalt atomic.Pointer[[]byte]

func init() {
	salt := make([]byte, 32)
	_, _ = rand.Read(salt) // ends the process rather than fail
	keySalt.Store(&salt)
}

// SaltKeys has all Shown of this process hash with salt, which is secret. With the
// same salt on all hosts of a cluster, a key looks the same in all their logs.
// Without SaltKeys, each process has a random salt. Call it before keys are shown.
func SaltKeys(salt []byte) {
	salt = append([]byte(nil), salt...)
	keySalt.Store(&salt)
}

// Shown is key as logs and people may see it: key itself, or, if r is private, what
// r's pattern says before its first wildcard, and a short hash of the rest.
func (r *Rule) Shown(key string) string {
	if !r.Private {
		return key
	}
	g, err := glob.Compile(r.Key)
	if err != nil {
		return hashed("", key)
	}
	if g.Exact() {
		return key // the file has all of it
	}
	prefix := g.Prefix()
	if len(key) < len(prefix) || key[:len(prefix)] != prefix {
		prefix = "" // a key of an earlier rule
	}
	return hashed(prefix, key[len(prefix):])
}

func hashed(prefix, rest string) string {
	h := hmac.New(sha256.New, *keySalt.Load())
	_, _ = h.Write([]byte(rest))
	return prefix + "#" + hex.EncodeToString(h.Sum(nil)[:shownHash])
}
