// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An operator who puts a broken file back as it was learns from the log that this helped.
func TestTheLogSaysThatAFileIsGoodAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good")
	var log strings.Builder
	f, err := Open("policy", []string{path}, 100, func(texts []string) (string, error) {
		if texts[0] == "broken" {
			return "", errors.New("it is broken")
		}
		return texts[0], nil
	}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"good", "broken", "good", "good"} {
		write(text)
		for f.look() {
		}
	}
	for text, times := range map[string]int{"it is broken": 1, "can be used again": 1, "changed": 0} {
		if n := strings.Count(log.String(), text); n != times {
			t.Errorf("%q is logged %d times, want %d:\n%s", text, n, times, &log)
		}
	}
}
