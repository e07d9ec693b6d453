// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"sync"
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
	prefix, hides := r.hides()
	if !hides {
		return key
	}
	if !strings.HasPrefix(key, prefix) {
		prefix = "" // a key of an earlier rule
	}
	return hashed(prefix, key[len(prefix):])
}

// Hides reports whether Shown hides a part of the keys of r.
func (r *Rule) Hides() bool {
	_, hides := r.hides()
	return hides
}

// hides is Hides, and what r's pattern says before its first wildcard.
func (r *Rule) hides() (prefix string, hides bool) {
	if !r.Private {
		return "", false
	}
	if !strings.ContainsAny(r.Key, `[\`) { // most patterns need not be compiled to tell
		wildcard := strings.IndexAny(r.Key, "*?")
		return r.Key[:max(wildcard, 0)], wildcard >= 0
	}
	g, err := glob.Compile(r.Key)
	if err != nil {
		return "", true
	}
	return g.Prefix(), !g.Exact() // the file has all of an exact key
}

// salted are hashes with one salt, which are used again: to begin with a salt takes longer than to hash a key.
type salted struct {
	hash.Hash

	salt *[]byte
	rest []byte
	sum  [sha256.Size]byte
}

var hashes sync.Pool // of *salted

func hashed(prefix, rest string) string {
	salt := keySalt.Load()
	h, ok := hashes.Get().(*salted)
	if !ok || h.salt != salt {
		h = &salted{Hash: hmac.New(sha256.New, *salt), salt: salt}
	}
	defer hashes.Put(h)
	h.Reset()
	h.rest = append(h.rest[:0], rest...)
	_, _ = h.Write(h.rest)
	var digits [2 * shownHash]byte
	hex.Encode(digits[:], h.Sum(h.sum[:0])[:shownHash])
	return prefix + "#" + string(digits[:])
}
