// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"errors"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
)

// maxAlgorithm is the longest name of an algorithm, in bytes.
const maxAlgorithm = 64

// CheckAlgorithm reports whether rules can name an algorithm so:
// [a-z][a-z0-9-]*, at most 64 bytes.
func CheckAlgorithm(name string) error {
	ok := name != "" && len(name) <= maxAlgorithm && name[0] >= 'a' && name[0] <= 'z'
	for i := range len(name) {
		c := name[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok {
		return errors.New(message.Quote(name) + " is not the name of an algorithm: use a to z, 0 to 9 and -, a letter first, at most 64")
	}
	return nil
}

// CheckNamed is CheckAlgorithm for what a rule names: an algorithm, or a weigher on
// an account, as in pool/fair-share.
func CheckNamed(name string) error {
	account, weigher, pair := strings.Cut(name, "/")
	if !pair {
		err := CheckAlgorithm(name)
		if err == nil {
			return nil
		}
		meant := message.Suggest(name, BuiltIn())
		if !strings.HasSuffix(meant, "?") {
			meant += ", or a name of your own of a to z, 0 to 9 and -"
		}
		return errors.New(message.Quote(name) + " is not the name of an algorithm: " + meant)
	}
	return errors.Join(CheckAlgorithm(account), CheckAlgorithm(weigher))
}
