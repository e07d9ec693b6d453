// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/traffic"
)

func TestLoadReadsAFileAndTheTraceBesideIt(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mine.yaml", "name: mine\nduration: 10s\nlimits: [{key: k, limit: 5/s}]\ntrace: mine.csv\n")
	write("mine.csv", "time_s,host,key,cost\n2.5,web-2,k,3\n0.5,web-1,k,1\n99,web-1,k,1\n")
	sc := load(t, filepath.Join(dir, "mine.yaml"))
	if len(sc.Hosts) != 2 || sc.Hosts[0] != "web-2" {
		t.Errorf("hosts %v", sc.Hosts)
	}
	k := run(t, sc, "even", 1).Keys[0]
	if k.Offered != 4 || k.Seconds[0].Offered != 1 || k.Seconds[2].Offered != 3 {
		t.Errorf("%+v", k)
	}
	write("mine.csv", "time_s,host,key,cost\n2.5,web-2,k,3\n1,web-1,k\n")
	if _, err := scenario.Load(filepath.Join(dir, "mine.yaml")); err == nil || !strings.Contains(err.Error(), "mine.csv:3: 3 fields") {
		t.Errorf("err = %v", err)
	}
	write("named.yaml", "name: named\nduration: 10s\nhosts: [web-1]\nlimits: [{key: k, limit: 5/s}]\ntrace: mine.csv\n")
	write("mine.csv", "time_s,host,key,cost\n2.5,web-2,k,3\n")
	if _, err := scenario.Load(filepath.Join(dir, "named.yaml")); err == nil || !strings.Contains(err.Error(), `events of "web-2"`) {
		t.Errorf("err = %v", err)
	}
}

// A trace of half a million lines out of order is no problem.
func TestHugeTrace(t *testing.T) {
	events := 500_000
	if testing.Short() {
		events = 20_000
	}
	var b strings.Builder
	b.WriteString("time_s,host,key,cost\n")
	for i := range events {
		fmt.Fprintf(&b, "%d.%03d,h%d,k%d,1\n", (i*7919)%100, i%1000, i%50, i%20)
	}
	files := fstest.MapFS{"t.csv": &fstest.MapFile{Data: []byte(b.String())}}
	sc, err := scenario.Parse("huge.yaml", []byte("name: huge\nduration: 100s\nlimits: [{key: k*, limit: 100/s}]\ntrace: t.csv\n"),
		func(file string) (io.ReadCloser, error) { return files.Open(file) })
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(sc, "request-weighted", 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.All == nil || r.All.Offered != int64(events) || len(r.Keys) != 20 {
		t.Errorf("%+v", r.All)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range scenario.Names(scenario.Accuracy) {
		data, err := os.ReadFile("../scenario/scenarios/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("name: small\nduration: 10s\nhosts: 3\nlimits:\n  - key: \"a:*\"\n    limit: 10/s\ntraffic:\n  - {key: \"a:b\", rate: 1/s}\n")
	trace := "time_s,host,key,cost\n1,a,a:b,1\n"
	f.Fuzz(func(t *testing.T, text string) {
		sc, err := scenario.Parse("fuzz.yaml", []byte(text), func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(trace)), nil })
		if (sc == nil) == (err == nil) {
			t.Fatal("exactly one of both")
		}
		if err != nil || sc.Duration > 5*time.Second || len(sc.Hosts)+sc.Owners > 20 {
			return
		}
		sum := 0.0
		for _, s := range sc.Sources {
			if c, ok := s.Rate.(traffic.Constant); ok {
				sum += float64(c)
			} else {
				sum = scenario.MaxRate
			}
		}
		if sum < 1000 {
			_, _ = Run(sc, "", 1) // must end, and not panic
		}
	})
}
