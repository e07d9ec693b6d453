// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/internal/markers"
)

var update = flag.Bool("update", false, "write the table of settings in docs/config.md anew")

// executed runs a command in this process.
func executed(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	t.Helper()
	out, _, err = execute(t, args...)
	return out, err
}

func TestTheCommandLineCountsBeforeTheEnvironmentAndThatBeforeTheFile(t *testing.T) {
	file := runtest.File(t, "headgate.yaml", `
limits: limits.yaml
edge: 127.0.0.1:1
http: 127.0.0.1:1
admin: 127.0.0.1:1
max_connections: 12
drain: 3s
redis_tls: true
unix_mode: 0600
members: [127.0.0.1:1, "127.0.0.1:2"]
`)
	t.Setenv("HEADGATE_HTTP", "127.0.0.1:2")
	t.Setenv("HEADGATE_EDGE", "127.0.0.1:2")
	t.Setenv("HEADGATE_SEEDS", "127.0.0.1:3,127.0.0.1:4")
	out, err := executed(t, "serve", "--config", file, "--edge", "127.0.0.1:3", "--print-config")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`edge: "127.0.0.1:3"  # from the command line`,
		`http: "127.0.0.1:2"  # from HEADGATE_HTTP`,
		`admin: "127.0.0.1:1"  # from ` + file + ":5",
		`max_connections: "12"  # from ` + file + ":6",
		`drain: "3s"`, `redis_tls: "true"`, `unix_mode: "0600"`,
		`members: ["127.0.0.1:1", "127.0.0.1:2"]`, `seeds: ["127.0.0.1:3", "127.0.0.1:4"]`,
		`lame_duck: "5s"  # default`,
	} {
		if !strings.Contains(out, want+"\n") && !strings.Contains(out, want+"  #") {
			t.Errorf("there is no %s in\n%s", want, out)
		}
	}
	for _, name := range []string{"HTTP", "EDGE", "SEEDS"} {
		if err := os.Unsetenv("HEADGATE_" + name); err != nil { // Setenv brings it back
			t.Fatal(err)
		}
	}
	again, err := executed(t, "serve", "--config", runtest.File(t, "printed.yaml", out), "--print-config")
	if values := withoutSources(again); err != nil || values != withoutSources(out) {
		t.Errorf("what is printed does not mean the same: %v\n%s", err, again)
	}
}

// withoutSources is printed settings without their sources.
func withoutSources(printed string) (values string) {
	for line := range strings.Lines(printed) {
		value, _, _ := strings.Cut(line, "  #")
		values += value + "\n"
	}
	return values
}

// Editors of other systems write a mark at the beginning, and ends of lines of two characters.
func TestSettingsAreReadAsOtherSystemsWriteThem(t *testing.T) {
	file := runtest.File(t, "headgate.yaml", "\ufefflimits: limits.yaml\r\nedge: 127.0.0.1:1 # ours\r\n")
	out, err := executed(t, "serve", "--config", file, "--print-config")
	for _, want := range []string{`limits: "limits.yaml"`, `edge: "127.0.0.1:1"`} {
		if err != nil || !strings.Contains(out, want+"  # from "+file) {
			t.Errorf("%v, and there is no %s in\n%s", err, want, out)
		}
	}
}

func TestMistakesInSettings(t *testing.T) {
	for text, want := range map[string][]string{
		"edgee: x\nmax_connections: many\ndrain: long\nredis_tls: maybe": {
			":1: edgee: there is no such field: did you mean edge?", `:2: max_connections: "many": write a whole number`,
			`:3: drain: "long": write a time`, `:4: redis_tls: "maybe": write true or false`,
		},
		"edge: [a]\nmembers: {a: b}\nadmin:\nconfig: x\nmax-connections: 1": {
			":1: edge: write one value", ":2: members: write a value", ":3: admin: write a value", ":4: config: there is no such field: headgate serve --print-config prints all", ":5: max-connections: there is no such field",
		},
		"edge: a\nhttp: [a]\nedge: b\nadmin: [c]\nedge: d": {
			":2: http: write one value", ":3: edge: line 1 has this field already", ":4: admin: write one value", ":5: edge: line 1 has this field already",
		},
		"limits:\n  - {key: a, limit: 1/s}": {":1: limits: write the path of a file of limits, and no list; if this is that file, name it with --limits"},
		"- edge":                            {"write fields"},
		"edge: a\n---\nx: y":                {"more than one document"},
		"limits: a\nedge: [":                {"headgate.yaml:2: "},
	} {
		_, err := executed(t, "serve", "--config", runtest.File(t, "headgate.yaml", text), "--print-config")
		for _, want := range want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v does not say %s", text, err, want)
			}
		}
	}
	if _, err := executed(t, "serve", "--config", "nowhere.yaml", "--print-config"); err == nil || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Error(err)
	}
}

func TestAllMistakesAreToldAtOnceAndWhereTheyAre(t *testing.T) {
	file := runtest.File(t, "headgate.yaml", `
limits: limits.yaml
edge: nowhere
members: [127.0.0.1:1]
http: [a]
max_connections: many
lame_duck: -3s
log_level: loud
log_format: xml
`)
	t.Setenv("HEADGATE_SEEDS", "127.0.0.1:3")
	t.Setenv("HEADGATE_DRAIN", "long")
	t.Setenv("HEADGATE_MEMBER", "x")
	_, err := executed(t, "serve", "--config", file, "--http", "127.0.0.1:2", "--unix", "@x")
	for _, want := range []string{
		file + ":5: http: write one value", // although the command line has another
		file + `:6: max_connections: "many"`,
		`HEADGATE_DRAIN: "long": write a time`,
		"--edge (from " + file + `:3): edge "nowhere" is not host:port`,
		"--members (from " + file + ":4), --seeds (from HEADGATE_SEEDS): members are listed",
		"--lame-duck (from " + file + ":7): a lame duck for -3s",
		"--unix (from the command line): the Unix socket",
		"--log-level (from " + file + `:8): log level "loud": use debug`,
		"--log-format (from " + file + `:9): log format "xml": use text`,
		"HEADGATE_MEMBER is no setting: did you mean HEADGATE_MEMBERS?",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 10 {
		t.Errorf("%d lines, want a line for each of the 9 mistakes, and for the warning:\n%v", n, err)
	}
	if _, err := executed(t, "serve"); err == nil || !strings.Contains(err.Error(), "--seeds (from HEADGATE_SEEDS)") && !strings.Contains(err.Error(), "--limits: no limits") {
		t.Error(err)
	}
}

func TestVariablesThatLookLikeSettings(t *testing.T) {
	s := settings{flags: newServe().Flags()}
	got := s.suspects([]string{
		"HEADGATE_EDGEE=x", "HEADGATE_EDGE=x", "HEADGATE_REDIS_PASSWORD=x", "HEADGATE_KEY_SALTS=x", "EDGEE=x",
		"HEADGATE_PORT=tcp://10.0.0.1:7934", "HEADGATE_SERVICE_HOST=10.0.0.1", // Kubernetes' own
		"HEADGATE_LONG=1", "HEADGATE_=", // of another program
	})
	want := []string{"HEADGATE_EDGEE is no setting: did you mean HEADGATE_EDGE?", "HEADGATE_KEY_SALTS is no setting: did you mean HEADGATE_KEY_SALT?"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	limits := runtest.File(t, "limits.yaml", "limits: [{key: a, limit: 1/s}]")
	good := runtest.File(t, "headgate.yaml", fmt.Sprintf("limits: %q", limits))
	if out, err := executed(t, "serve", "--config", good, "--check"); err != nil || !strings.Contains(out, "good") {
		t.Errorf("%s, %v", out, err)
	}
	for want, args := range map[string][]string{
		"go together": {"--tls-cert", "x"},
		"the file of operators: stat nowhere: no such file or directory: create it, or correct the path": {"--admin", "127.0.0.1:0", "--operators", "nowhere"},
		"members: stat nowhere: no such file or directory: create it, or correct the path":               {"--members-file", "nowhere"},
		"1 of 1 files": {"--limits", runtest.File(t, "limits.yaml", "limits: [{key: a}]")},
	} {
		if _, err := executed(t, append([]string{"serve", "--config", good, "--check"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v does not say %s", args, err, want)
		}
	}
}

// All files that settings name are checked together, whatever else is wrong.
func TestAllFilesAreCheckedAtOnce(t *testing.T) {
	broken := runtest.File(t, "broken", "?")
	file := runtest.File(t, "headgate.yaml", fmt.Sprintf(`
limits: %[1]s
http: nowhere
tls_cert: %[1]s
tls_key: %[1]s
policy: %[1]s
members_file: %[1]s
parent: [127.0.0.1:1]
cluster: a
parent_ca: %[1]s
redis: 127.0.0.1:1
redis_password_file: nowhere.txt
`, broken))
	_, err := executed(t, "serve", "--config", file, "--check")
	for _, want := range []string{
		"--http (from " + file + ":3)", "--tls-cert (from " + file + ":4), --tls-key (from " + file + ":5): tls: the certificate", "--policy (from " + file + ":6): the policy",
		"--members-file (from " + file + ":7): members", "--parent-ca (from " + file + ":10): parent: tls", "--redis-password-file (from " + file + ":12): password of redis", "limits check: 1 of 1 files",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	keys := runtest.File(t, "keys", "?")
	if _, err := executed(t, "serve", "--limits", "nowhere", "--seeds", "127.0.0.1:1", "--gossip-keys", keys, "--gossip-address", "x", "--check"); err == nil ||
		!strings.Contains(err.Error(), `listen "x" is not host:port`) {
		t.Error(err)
	}
	if _, err := executed(t, "serve", "--limits", "nowhere", "--seeds", "127.0.0.1:1", "--gossip-keys", keys, "--check"); err == nil || !strings.Contains(err.Error(), "gossip: keys: "+keys) {
		t.Error(err)
	}
}

// What the daemon would warn of when it starts is no mistake, and --check says it too.
func TestCheckWarnsOfWhatTheDaemonWouldWarnOf(t *testing.T) {
	limits := runtest.File(t, "limits.yaml", "limits: [{key: a, limit: 1/s, parent: true}]")
	db := t.TempDir()
	if _, said, err := execute(t, "limits", "apply", "--limits-db", db, limits, "-m", "first"); err != nil {
		t.Fatal(err, said)
	}
	for _, from := range [][]string{{"--limits", limits}, {"--limits-db", db}} {
		_, said, err := execute(t, append([]string{"serve", "--check"}, from...)...)
		if err != nil || !strings.Contains(said, "there is no cluster above") {
			t.Errorf("%s: %v, %q", from, err, said)
		}
		if _, said, err := execute(t, append([]string{"serve", "--check", "--parent", "127.0.0.1:1", "--cluster", "a"}, from...)...); err != nil || said != "" {
			t.Errorf("%s with a parent: %v, %q", from, err, said)
		}
	}
}

// A file of settings that cannot be read does not make it look as if settings lacked.
func TestASettingIsNotMissingBecauseTheFileIsBroken(t *testing.T) {
	_, err := executed(t, "serve", "--config", runtest.File(t, "headgate.yaml", "limits: a\nedge: ["), "--check")
	if err == nil || strings.Contains(err.Error(), "no limits") || strings.Count(err.Error(), "\n") > 0 {
		t.Error(err)
	}
}

// TestTheDocsHaveAllSettings compares the table in docs/config.md with the flags.
func TestTheDocsHaveAllSettings(t *testing.T) {
	const page = "../../../../docs/config.md"
	var b strings.Builder
	b.WriteString("| field | environment | meaning | default |\n|---|---|---|---|\n")
	s := settings{flags: newServe().Flags()}
	s.each(func(f *pflag.Flag) {
		value := f.DefValue
		if value == "" || value == "[]" || value == "0s" || value == "false" {
			value = ""
		} else {
			value = "`" + value + "`"
		}
		usage := strings.ReplaceAll(strings.ReplaceAll(f.Usage, "`", ""), "|", "\\|")
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", fieldOf(f.Name), variableOf(f.Name), usage, value)
	})
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	next, err := markers.Replace(string(text), "settings", "table", b.String())
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case next == string(text):
	case *update:
		if err := os.WriteFile(page, []byte(next), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("docs/config.md has other settings: look at the difference after go test ./cmd/headgate/internal/serve -run Settings -update")
	}
}

// By default, a daemon has no listener that other machines can reach.
func TestOthersReachADaemonOnlyWhereItIsTold(t *testing.T) {
	flags := newServe().Flags()
	for name, want := range map[string]string{"listen": "127.0.0.1:", "edge": "127.0.0.1:", "http": "", "admin": "", "unix": "", "gossip-address": "", "seeds": "[]"} {
		if got := flags.Lookup(name).DefValue; got != want && (want == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("--%s is %q by default", name, got)
		}
	}
}

func TestServeChecksAFolderOfLimits(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"10-shop.yaml": "limits: [{key: orders, limit: 1/s}]", "20-mail.yml": "limits: [{key: \"mail:*\", limit: 2/s}]"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := executed(t, "serve", "--limits", dir, "--check"); err != nil || !strings.Contains(out, "good, rules: 2") {
		t.Errorf("serve --check: %v, %s", err, out)
	}
}
