// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits"
	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/internal/command"
)

// execute runs a headgate that has only the commands of this package and limits.
func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runtest.Run(t, command.Root(&cobra.Command{Use: "headgate"}, append(Commands(), limits.New())...), nil, args...)
}

// The flags say what the daemon is to know.
func TestServeRefusesHalfOfWhatItNeeds(t *testing.T) {
	for want, args := range map[string][]string{
		"name both files":             {"--tls-cert", "cert.pem"},
		"tls: a certificate and its":  {"--tls-key", "key.pem"},
		"no certificate to show them": {"--tls-client-ca", "ca.pem"},
		"authority, but no parent":    {"--parent-ca", "ca.pem"},
		`admin "here" is not`:         {"--admin", "here"},
		"use text or json":            {"--log-format", "xml"},
		"use debug, info, warn":       {"--log-level", "loud"},
		"a lame duck for -1s":         {"--lame-duck", "-1s"},
		`"there" is not host:port`:    {"--redis", "there"},
		"no address: say where":       {"--redis-cluster"},
		"there are settings":          {"--redis-timeout", "1s"},
		"redis: there are settings, ": {"--redis-user", "me"},
		"settings, and no address":    {"--redis-tls"},
		"has a brace":                 {"--redis", "h:1", "--redis-prefix", "{"},
		"stat nowhere":                {"--redis", "h:1", "--redis-password-file", "nowhere"},
	} {
		limits := runtest.File(t, "limits.yaml", "limits: [{key: k, limit: 10/s}]")
		args = append([]string{"serve", "--limits", limits, "--listen", "127.0.0.1:0", "--edge", "127.0.0.1:0"}, args...)
		if _, _, err := execute(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args[7:], err)
		}
	}
}

func TestServeRefusesModesThatAreNone(t *testing.T) {
	for _, mode := range []string{"0", "1777", "rw", "-1", "888", ""} {
		if _, _, err := execute(t, "serve", "--limits", "x", "--unix", "s", "--unix-mode", mode); err == nil || !strings.Contains(err.Error(), "write octal digits") {
			t.Errorf("%q: %v", mode, err)
		}
	}
}
