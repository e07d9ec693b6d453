// SPDX-License-Identifier: Apache-2.0

package certs_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/internal/daemon/certs"
)

func TestACertificateIsGoodForATime(t *testing.T) {
	issued := certtest.New(t).Issue(t, "daemon")
	cert, key := certtest.Encode(t, issued)
	files := certs.Files{Cert: filepath.Join(t.TempDir(), "cert.pem"), Key: filepath.Join(t.TempDir(), "key.pem")}
	for path, text := range map[string]string{files.Cert: cert, files.Key: key} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := certs.Open(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		at   time.Time
		says string // "": nothing is wrong
	}{
		{issued.Leaf.NotBefore.Add(-time.Second), "good from"},
		{issued.Leaf.NotBefore, ""},
		{issued.Leaf.NotAfter, ""},
		{issued.Leaf.NotAfter.Add(time.Second), "good until"},
	} {
		if err := c.Err(row.at); (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("at %v: %v", row.at, err)
		}
	}
}
