// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"regexp"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

var hasLimits = regexp.MustCompile(`(?m)^limits:`)

func TestLimitsAreValid(t *testing.T) {
	_, all := repository(t)
	for _, p := range all {
		for _, f := range p.fences {
			if (f.lang != "yaml" && f.lang != "yml") || !hasLimits.MatchString(f.text) {
				continue
			}
			if _, err := dynamicconfig.Parse(p.path, []byte(f.text)); err != nil {
				t.Errorf("%s, the YAML at line %d: %v", p.path, f.line, err)
			}
		}
	}
}
