// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
)

func TestMetaSurvivesWhatLaterReleasesSay(t *testing.T) {
	m := meta{Identity: "pod-0", Labels: "zone=a", Observer: true, Leaving: true}
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, 200, 3, 'n', 'e', 'w')
	if got, err := decodeMeta(b); err != nil || got != m {
		t.Errorf("with an unknown field: %+v, %v", got, err)
	}
	for want, broken := range map[string][]byte{
		"0 bytes":      nil,
		"same release": {2},
		"within":       {metaVersion, fieldLabels, 5, 'x'},
		"ends":         {metaVersion, fieldLabels},
		"512":          make([]byte, 513),
	} {
		if got, err := decodeMeta(broken); err == nil || !strings.Contains(err.Error(), want) || got != (meta{}) {
			t.Errorf("%x: %+v, %v; want %q", broken, got, err, want)
		}
	}
}

// A host says of as many hosts that they wait as there is room for.
func TestMarksOfHostsThatWait(t *testing.T) {
	var hosts []string
	for i := range 100 {
		hosts = append(hosts, fmt.Sprintf("10.0.0.%d:7933", i))
	}
	for _, labels := range []int{0, 250} {
		m := meta{Identity: strings.Repeat("i", labels), Labels: strings.Repeat("l", labels)}
		b, err := m.withWaiting(hosts).encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeMeta(b)
		if err != nil {
			t.Fatal(err)
		}
		known := len(got.Waiting) / 4
		if want := min(maxField/4, (memberlist.MetaMaxSize-len(b)+len(got.Waiting))/4); known != want {
			t.Errorf("beside labels of %d bytes, %d hosts are named, want %d", labels, known, want)
		}
		for i, address := range hosts {
			if got.Waiting.has(address) != (i < known) {
				t.Errorf("of the first %d hosts, %s is said to wait: %v", known, address, i >= known)
			}
		}
	}
	if marks("odd").has("a:1") || marks("").has("a:1") {
		t.Error("no host is named, and one waits")
	}
}

func FuzzMeta(f *testing.F) {
	for _, m := range []meta{{}, {Identity: "i", Labels: "zone=a"}, {Observer: true, Leaving: true}, {Waiting: markOf("a:1") + markOf("b:1")}, {Waiting: "odd"}} {
		b, err := m.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatalf("%+v was read, and cannot be written: %v", m, err)
		}
		if got, err := decodeMeta(again); err != nil || got != m {
			t.Fatalf("%+v comes back as %+v, %v", m, got, err)
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("# a\n" + strings.Repeat("A", 43) + "=\n"))
	f.Add([]byte("short\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseKeys(text)
		if err == nil && len(keys) == 0 {
			t.Fatal("no keys and no error")
		}
		for i, k := range keys {
			for _, other := range keys[:i] {
				if bytes.Equal(k, other) {
					t.Fatal("a key stands twice")
				}
			}
		}
	})
}

func TestSeedsFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seeds")
	for text, want := range map[string]string{
		"a:1 # one\n\nb:2\n": "a:1 b:2",
		"":                   "",
		"a\n":                "error",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := File(path)(context.Background())
		if s := strings.Join(got, " "); err == nil && s != want || err != nil && want != "error" {
			t.Errorf("%q: %q, %v", text, s, err)
		}
	}
	if _, err := File(path + ".none")(context.Background()); err == nil {
		t.Error("no file is no error")
	}
}
