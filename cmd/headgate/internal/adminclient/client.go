// SPDX-License-Identifier: Apache-2.0

package adminclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/printable"
)

// maxAnswer bounds an answer of a daemon, in bytes.
const maxAnswer = 64 << 20

// Client asks one decider. It is safe for concurrent use.
type Client struct {
	client *http.Client
	base   string // of URLs
	token  string
	wait   time.Duration // for an answer, in Ask; 0 is for ever
}

// Open sends a request. fields are those of its header, by turns name and value. The caller
// closes the answer, which is a success.
func (c *Client) Open(ctx context.Context, method, path, body string, fields ...string) (*http.Response, error) {
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
	var sent atomic.Bool // set by another goroutine
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}))
	answer, err := c.client.Do(r)
	switch {
	case err != nil && sent.Load() && changes(method, path):
		return nil, inDoubt(unanswered(err, r.URL.Host))
	case err != nil:
		return nil, unanswered(err, r.URL.Host)
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	var p reply.Problem
	if bytes.Contains(text, []byte("HTTP request to an HTTPS server")) {
		return nil, errors.New("the decider has a certificate: name its authority with --ca")
	}
	problem := json.Unmarshal(text, &p) == nil && p.Detail != ""
	if !problem || p.Title == "There is nothing at this path." { // the latter is said at --http
		return nil, fmt.Errorf("the decider answers %s: is this its --admin address, and has it --operators?", answer.Status)
	}
	if answer.StatusCode == http.StatusNotFound && strings.HasPrefix(p.Detail, "there is nothing at ") {
		return nil, fmt.Errorf("this decider does not know %s %s: it is of another release than this command. Use the headgate of its release, or upgrade the decider", method, r.URL.Path)
	}
	for _, m := range p.Mistakes {
		p.Detail += fmt.Sprintf("\n%d:%d: %s", m.Line, m.Column, m.Message)
	}
	p.Detail = strings.Join(printable.Lines(p.Detail), "\n") // names of strangers may be in it
	if answer.StatusCode == http.StatusUnauthorized && c.token == "" {
		p.Detail += "; give a token with --token-file, or in " + tokenVariable
	}
	return nil, &p
}

// changes reports whether a request may change something, and is not a question alone.
func changes(method, path string) bool {
	path, query, _ := strings.Cut(path, "?")
	return method != http.MethodGet && path != "/v1/limits/check" && path != "/v1/limits/dry-run" && !strings.Contains(query, "dry_run=true")
}

// inDoubt is err, after which the decider may have done what it was asked for.
func inDoubt(err error) error {
	return fmt.Errorf("%w. It may have done what it was asked for: before you ask again, look with headgate events or headgate limits history", err)
}

// unanswered is err, which a request to a decider at host had in place of an answer, with what to do.
func unanswered(err error, host string) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // the rest of it is the request
	}
	_, stranger := errors.AsType[*tls.CertificateVerificationError](err)
	switch text := err.Error(); {
	// net/http returns the second of these errors if the answer comes before the request is written.
	case strings.Contains(text, "malformed HTTP response") || strings.Contains(text, "readLoopPeekFailLocked"):
		return fmt.Errorf("what listens at %s does not speak HTTP: is it the decider's --edge, --listen or --gossip-address? Name its --admin address; if that has a certificate, name its authority with --ca", host)
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("the decider has no --admin-cert at %s: leave out --ca, --cert and --key, and mind that others on the network can read your token then", host)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("what listens at %s hung up: look whether the decider runs, and has --admin %[1]s, which is not its --edge", host)
	case errors.Is(err, context.Canceled) || strings.HasSuffix(text, "signal received"): // as of signal.NotifyContext
		return fmt.Errorf("there was no answer of the decider at %s yet: %w", host, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the decider at %s did not answer in time: look whether it runs, and can be reached from here, or wait longer with --timeout", host)
	case stranger:
		return fmt.Errorf("ask the decider: %w: name the authority of its --admin-cert with --ca, and with --admin a name or address that the certificate has", err)
	}
	return fmt.Errorf("ask the decider: %w: look whether it runs, and has --admin %s", err, host)
}

// Ask sends a request, and puts the answer into v, a pointer.
func (c *Client) Ask(ctx context.Context, method, path, body string, v any, fields ...string) error {
	if c.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.wait)
		defer cancel()
	}
	answer, err := c.Open(ctx, method, path, body, fields...)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		err = fmt.Errorf("the answer ended in the middle: %w", unanswered(err, answer.Request.URL.Host))
		if changes(method, path) {
			err = inDoubt(err)
		}
		return err
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(v)
}
