// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"strings"
	"testing"
)

func TestTopRefusesWhatItCannotDo(t *testing.T) {
	for want, args := range map[string][]string{
		"where a decider serves its operators": {"--once"},
		"use one of: rejected, allowed":        {"--once", "--sort", "size"},
		"use 1 to 1000":                        {"--once", "-n", "0"},
		"at least 100ms":                       {"--interval", "1ms"},
		"use one of: text, json, yaml":         {"-o", "xml"},
		"print one picture with --once":        {"--admin", "127.0.0.1:1"}, // go test gives no terminal
	} {
		if _, _, err := execute(t, append([]string{"top"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
