// SPDX-License-Identifier: Apache-2.0

package adminclient

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/certtest"
)

// Files of an operator are read as editors of other systems write them, and an empty
// token file is refused.
func TestFilesOfAnOperator(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	cert, key := certtest.Encode(t, authority.Issue(t, "ada"))
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for text, want := range map[string]string{"secret\n": "secret", "\ufeffsecret\r\nmore": "secret", " secret ": "secret"} {
		c, err := (&Decider{Address: "127.0.0.1:1", token: write(text)}).Client()
		if err != nil || c.token != want {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
	for text, want := range map[string]string{"": "first line is blank: put the token there", " \r\nsecret": "first line is blank", "\ufeff": "first line is blank", "\xff\xfes\x00": "save it as UTF-8"} {
		if _, err := (&Decider{Address: "127.0.0.1:1", token: write(text)}).Client(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	marked := Decider{Address: "127.0.0.1:1", ca: write("\ufeff" + cert), cert: write("\ufeff" + cert), key: write("\ufeff" + key)}
	if _, err := marked.Client(); err != nil {
		t.Error(err)
	}
}
