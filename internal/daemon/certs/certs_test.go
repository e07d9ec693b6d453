// SPDX-License-Identifier: Apache-2.0

package certs_test

import (
	"context"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/internal/daemon/certs"
	"github.com/headgate/headgate/internal/waittest"
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

// One broken certificate in a file takes no authority away from the programs of the others, and no
// chain from the daemon's own certificate: the file is refused, and the last good one stays.
func TestAFileWithABrokenCertificateIsRefused(t *testing.T) {
	one, two := certtest.New(t), certtest.New(t)
	cert, key := certtest.Encode(t, one.Issue(t, "daemon"))
	const garbage = "-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n"
	half := two.PEM()[:len(two.PEM())/2]
	for what, file := range map[string]struct{ cert, authorities, says string }{
		"both authorities":               {cert, one.PEM() + two.PEM(), ""},
		"words around them":              {cert, "# ours\n" + one.PEM() + "\n# theirs\n" + two.PEM() + "\n", ""},
		"a broken authority":             {cert, one.PEM() + garbage + two.PEM(), "certificate 2"},
		"half an authority at the end":   {cert, one.PEM() + half, "1 of the 2"},
		"half an authority in the front": {cert, half + "\n" + one.PEM(), "1 of the 2"},
		"no authority":                   {cert, key, "has no certificate"},
		"no certificate":                 {"limits: []", one.PEM(), "cert.pem"},
		"a chain":                        {cert + one.PEM(), one.PEM(), ""},
		"a broken chain":                 {cert + garbage, one.PEM(), "certificate 2"},
	} {
		dir := t.TempDir()
		files := certs.Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "ca.pem")}
		for path, text := range map[string]string{files.Cert: file.cert, files.Key: key, files.CA: file.authorities} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := certs.Open(files, slog.New(slog.DiscardHandler))
		if (err == nil) != (file.says == "") || err != nil && !strings.Contains(err.Error(), file.says) {
			t.Errorf("%s: %v, want %q", what, err, file.says)
		}
	}
}

// A certificate that everybody refuses, as one that begins tomorrow or that a backup brought back, takes
// the place of one that is good no sooner than it is good itself.
func TestACertificateThatIsNotGoodNowReplacesNoGoodOne(t *testing.T) {
	authority, dir := certtest.New(t), t.TempDir()
	files := certs.Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	// put has the files say a certificate that is good between two times.
	put := func(from, to time.Time) *x509.Certificate {
		issued := authority.IssueAltered(t, "daemon", func(c *x509.Certificate) { c.NotBefore, c.NotAfter = from, to })
		cert, key := certtest.Encode(t, issued)
		for path, text := range map[string]string{files.Cert: cert, files.Key: key} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return issued.Leaf
	}
	now := time.Now()
	first := put(now.Add(-time.Hour), now.Add(time.Hour))
	c, err := certs.Open(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	defer func() { stop(); <-ended }()
	inForce := func(want *x509.Certificate) bool {
		own, err := c.Client(nil)
		return err == nil && own.Leaf.Equal(want)
	}
	for what, times := range map[string][2]time.Time{
		"begins in an hour":     {now.Add(time.Hour), now.Add(2 * time.Hour)},
		"ended a minute before": {now.Add(-time.Hour), now.Add(-time.Minute)},
	} {
		put(times[0], times[1])
		waittest.Until(t, what+" and is refused", func() bool { return c.Err(now) != nil })
		if !inForce(first) {
			t.Errorf("a certificate that %s is in force", what)
		}
		put2 := put(now.Add(-time.Hour), now.Add(time.Hour))
		waittest.Until(t, "a good one is in force", func() bool { return inForce(put2) && c.Err(now) == nil })
		first = put2
	}
	soon := put(time.Now().Add(2*time.Second), now.Add(time.Hour))
	waittest.Until(t, "one that begins soon is in force then", func() bool { return inForce(soon) })
	if begins := soon.NotBefore; time.Now().Before(begins) {
		t.Errorf("it is in force before %v", begins)
	}
}

// Without --admin, the log alone can tell an operator why nobody connects.
func TestTheLogNamesACertificateThatHasEnded(t *testing.T) {
	issued := certtest.New(t).IssueAltered(t, "daemon", func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	})
	cert, key := certtest.Encode(t, issued)
	files := certs.Files{Cert: filepath.Join(t.TempDir(), "cert.pem"), Key: filepath.Join(t.TempDir(), "key.pem")}
	for path, text := range map[string]string{files.Cert: cert, files.Key: key} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	if _, err := certs.Open(files, slog.New(slog.NewTextHandler(&log, nil))); err != nil || !strings.Contains(log.String(), "the certificate was good until") {
		t.Errorf("%v: %s", err, &log)
	}
}

// Authorities of which none is good yet, as those of a rotation that was begun too early, have everybody refused.
// They take no good one's place, and the log of a daemon that starts with them says so.
func TestAuthoritiesThatAreNotGoodNowReplaceNoGoodOnes(t *testing.T) {
	old, dir, now := certtest.New(t), t.TempDir(), time.Now()
	cert, key := certtest.Encode(t, old.Issue(t, "daemon"))
	early, _ := certtest.Encode(t, old.IssueAltered(t, "tomorrow's", func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.NotBefore, c.NotAfter = true, true, now.Add(time.Hour), now.Add(2*time.Hour)
	}))
	files := certs.Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "ca.pem")}
	put := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(files.Cert, cert)
	put(files.Key, key)
	put(files.CA, early)
	var log strings.Builder
	if _, err := certs.Open(files, slog.New(slog.NewTextHandler(&log, nil))); err != nil || !strings.Contains(log.String(), "tomorrow's") {
		t.Errorf("%v: %s", err, &log)
	}
	put(files.CA, old.PEM()+early)
	c, err := certs.Open(files, slog.New(slog.DiscardHandler))
	if err != nil || c.Err(now) != nil {
		t.Fatal(err, c.Err(now))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	defer func() { stop(); <-ended }()
	both := c.Peer("").RootCAs
	put(files.CA, early)
	waittest.Until(t, "the file is refused", func() bool { return c.Err(now) != nil })
	if !c.Peer("").RootCAs.Equal(both) {
		t.Error("the authority that is not good yet is the only one")
	}
	put(files.CA, old.PEM())
	waittest.Until(t, "a good one is in force", func() bool { return c.Err(now) == nil && !c.Peer("").RootCAs.Equal(both) })
}
