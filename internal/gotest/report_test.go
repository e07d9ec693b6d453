// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func events(t *testing.T, list ...event) string {
	t.Helper()
	var b strings.Builder
	for _, e := range list {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

func TestReport(t *testing.T) {
	for _, tc := range []struct {
		name        string
		events      []event
		want        []string
		not         []string
		failed      int
		packagesRun int
	}{
		{
			name: "passing tests are one line each",
			events: []event{
				{Action: "output", Package: "p", Test: "TestA", Output: "=== RUN   TestA\n"},
				{Action: "output", Package: "p", Test: "TestA", Output: "    a_test.go:1: chatter\n"},
				{Action: "pass", Package: "p", Test: "TestA", Elapsed: 0.25},
				{Action: "output", Package: "p", Output: "PASS\n"},
				{Action: "output", Package: "p", Output: "ok  \tp\t0.3s\n"},
				{Action: "pass", Package: "p", Elapsed: 3},
			},
			want:        []string{"took 1m30s, and 1m0s of the processors'; most in p (3s)\n", "--- PASS: TestA (0.25s)\n", "ok  \tp\t0.3s\n", "ok: 1 tests passed in 1 packages, 0 failures, 0 skipped"},
			not:         []string{"chatter", "=== RUN", "SKIPPED"},
			packagesRun: 1,
		},
		{
			name: "a skip is told twice, with its reason at the end",
			events: []event{
				{Action: "output", Package: "p", Test: "TestA/b", Output: "    a_test.go:1: needs etcd\n"},
				{Action: "output", Package: "p", Test: "TestA/b", Output: "    --- SKIP: TestA/b (0.00s)\n"},
				{Action: "skip", Package: "p", Test: "TestA/b"},
				{Action: "pass", Package: "p", Test: "TestA"},
				{Action: "pass", Package: "p"},
			},
			want:        []string{"--- SKIP: TestA/b", "!!! SKIPPED", "!!!   p TestA/b: a_test.go:1: needs etcd\n", "1 skipped"},
			packagesRun: 1,
		},
		{
			name: "a failure tells all that it wrote",
			events: []event{
				{Action: "output", Package: "p", Test: "TestA", Output: "    a_test.go:9: got 1, want 2\n"},
				{Action: "output", Package: "p", Test: "TestA", Output: "--- FAIL: TestA (0.00s)\n"},
				{Action: "fail", Package: "p", Test: "TestA"},
				{Action: "fail", Package: "p"},
			},
			want:        []string{"got 1, want 2", "--- FAIL: TestA", "FAIL: 0 tests passed"},
			failed:      1,
			packagesRun: 1,
		},
		{
			name: "a test that panics away is told",
			events: []event{
				{Action: "output", Package: "p", Test: "TestA", Output: "panic: boom\n"},
				{Action: "fail", Package: "p"},
			},
			want:        []string{"--- DID NOT END: TestA\npanic: boom\n"},
			failed:      1,
			packagesRun: 1,
		},
		{
			name: "a package that does not build is told and fails",
			events: []event{
				{Action: "build-output", Output: "p/a.go:3: undefined: x\n"},
				{Action: "output", Package: "p", Output: "FAIL\tp [build failed]\n"},
				{Action: "fail", Package: "p", FailedBuild: "p"},
			},
			want:        []string{"undefined: x", "[build failed]"},
			failed:      1,
			packagesRun: 1,
		},
		{
			name: "a package without tests is not counted",
			events: []event{
				{Action: "output", Package: "p", Output: "?   \tp\t[no test files]\n"},
				{Action: "skip", Package: "p"},
			},
			want: []string{"0 tests passed in 0 packages, 0 failures, 0 skipped"},
			not:  []string{"no test files"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(strings.NewReader("not an event\n" + events(t, tc.events...))); err != nil {
				t.Fatal(err)
			}
			r.end(90*time.Second, time.Minute)
			for _, want := range append(tc.want, "not an event\n") {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in:\n%s", want, out.String())
				}
			}
			for _, not := range tc.not {
				if strings.Contains(out.String(), not) {
					t.Errorf("%q in:\n%s", not, out.String())
				}
			}
			if r.failed != tc.failed || r.packages != tc.packagesRun {
				t.Errorf("failed %d, packages %d; want %d, %d", r.failed, r.packages, tc.failed, tc.packagesRun)
			}
		})
	}
}

// A package that takes long and starts last would run alone at the end.
func TestTheLongestPackagesStartFirst(t *testing.T) {
	t.Chdir("../..")
	if got, want := longestFirst([]string{"-short", "./..."}), slices.Concat([]string{"-short"}, long, []string{"./..."}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q: is a folder of long gone?", got, want)
	}
	if got := longestFirst([]string{"./limiter/..."}); !slices.Equal(got, []string{"./limiter/..."}) {
		t.Errorf("other packages than those asked for: %q", got)
	}
	t.Chdir("internal/gotest")
	if got := longestFirst([]string{"./..."}); !slices.Equal(got, []string{"./..."}) {
		t.Errorf("packages of another folder: %q", got)
	}
}

// The module beside the packages is in the same report, and fails the run if a test of it fails.
func TestAModuleRunsBesideThePackages(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module beside\n\ngo 1.25\n",
		"a_test.go": "package beside\n\nimport \"testing\"\n\nfunc TestHolds(t *testing.T) {}\n\nfunc TestFails(t *testing.T) { t.Error(\"broken\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	r := newReport(&out)
	if _, failed := goTest(r, dir, t.TempDir(), []string{"./..."}); !failed || r.passed != 1 || r.failed != 1 || !strings.Contains(out.String(), "broken") {
		t.Errorf("failed: %v, %d passed and %d failed:\n%s", failed, r.passed, r.failed, out.String())
	}
}
