// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/internal/admin/api"
)

// maxAnswer bounds an answer of a daemon, in bytes.
const maxAnswer = 64 << 20

// tokenVariable is the variable of the environment with an operator's token.
const tokenVariable = "HEADGATE_TOKEN"

// admin is a daemon's address for operators, and how a command calls it.
type admin struct {
	address       string
	ca, cert, key string // files
	token         string // the file of it
	timeout       time.Duration
}

func (a *admin) flags(flags *pflag.FlagSet) {
	flags.StringVar(&a.address, "admin", "", "where a decider serves its operators, `host:port` (required)")
	flags.StringVar(&a.ca, "ca", "", "`file` with the authority of the decider's --admin-cert (default plain text)")
	flags.StringVar(&a.cert, "cert", "", "`file` with an operator's certificate, if the decider has --admin-client-ca")
	flags.StringVar(&a.key, "key", "", "`file` with the key of --cert")
	flags.StringVar(&a.token, "token-file", "", "`file` with an operator's token in its first line (default the environment's "+tokenVariable+")")
	flags.DurationVar(&a.timeout, "timeout", 10*time.Second, "how long to wait for the answer")
}

// use calls f with what asks the daemon, for at most a.timeout; 0 is for ever.
func (a *admin) use(cmd *cobra.Command, f func(ctx context.Context, c *caller) error) error {
	failed := func(err error) error {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(cmd.CommandPath(), "headgate "), err)
	}
	if _, _, err := net.SplitHostPort(a.address); err != nil {
		if a.address == "" {
			return failed(errors.New("--admin: say where a decider serves its operators, as in 10.0.0.7:7936"))
		}
		return failed(fmt.Errorf("--admin %q: write host:port and nothing else, as in 10.0.0.7:7936", a.address))
	}
	c, err := a.caller()
	if err != nil {
		return failed(err)
	}
	ctx := cmd.Context()
	if a.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
	}
	if err := f(ctx, c); err != nil {
		return failed(err)
	}
	return nil
}

// caller asks one daemon.
type caller struct {
	client *http.Client
	base   string // of URLs
	token  string
}

func (a *admin) caller() (*caller, error) {
	c := &caller{client: http.DefaultClient, base: "http://" + a.address, token: os.Getenv(tokenVariable)}
	if a.token != "" {
		text, err := os.ReadFile(a.token)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		c.token = strings.TrimSpace(line)
	}
	if a.ca == "" && a.cert == "" && a.key == "" {
		return c, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		text, err := os.ReadFile(a.ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", a.ca)
		}
	}
	if a.cert != "" || a.key != "" {
		own, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, fmt.Errorf("--cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	c.client, c.base = &http.Client{Transport: &http.Transport{TLSClientConfig: config}}, "https://"+a.address
	return c, nil
}

// open sends a request, whose fields are those of the header, by turns name and value. The
// caller closes the answer, which is a success.
func (c *caller) open(ctx context.Context, method, path, body string, fields ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	answer, err := c.client.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // the rest of it is the request
		}
		// net/http has the second of these errors if the bytes come before the request is written.
		if strings.Contains(err.Error(), "malformed HTTP response") || strings.Contains(err.Error(), "readLoopPeekFailLocked") {
			return nil, fmt.Errorf("what listens at %s does not speak HTTP: is it the decider's --edge, --listen or --gossip-address? Name its --admin address; if that has a certificate, name its authority with --ca", r.URL.Host)
		}
		return nil, fmt.Errorf("ask the decider: %w: look whether it runs, and has --admin %s", err, r.URL.Host)
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	var p api.Problem
	if bytes.Contains(text, []byte("HTTP request to an HTTPS server")) {
		return nil, errors.New("the decider has a certificate: name its authority with --ca")
	}
	problem := json.Unmarshal(text, &p) == nil && p.Detail != ""
	if !problem || p.Title == "There is nothing at this path." { // the latter is said at --http
		return nil, fmt.Errorf("the decider answers %s: is this its --admin address, and has it --operators?", answer.Status)
	}
	for _, m := range p.Mistakes {
		p.Detail += fmt.Sprintf("\n%d:%d: %s", m.Line, m.Column, m.Message)
	}
	if answer.StatusCode == http.StatusUnauthorized && c.token == "" {
		p.Detail += "; give a token with --token-file, or in " + tokenVariable
	}
	return nil, &p
}

// ask sends a request, and puts the answer into v, a pointer.
func (c *caller) ask(ctx context.Context, method, path, body string, v any, fields ...string) error {
	answer, err := c.open(ctx, method, path, body, fields...)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return err
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(v)
}
