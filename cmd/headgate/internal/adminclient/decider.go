// SPDX-License-Identifier: Apache-2.0

package adminclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/textfile"
)

// tokenVariable is the variable of the environment with an operator's token.
const tokenVariable = "HEADGATE_TOKEN"

// Decider is a decider that a command calls at its address for operators.
type Decider struct {
	Address       string        // host:port; empty if the command line names none
	Timeout       time.Duration // of Use, and of each Ask of a Client; 0 is for ever
	ca, cert, key string        // files
	token         string        // the file of it
}

// Flags adds the flags that name the decider.
func (a *Decider) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&a.Address, "admin", "", "where a decider serves its operators, `host:port` (required)")
	flags.StringVar(&a.ca, "ca", "", "`file` with the authority of the decider's --admin-cert (default plain text)")
	flags.StringVar(&a.cert, "cert", "", "`file` with an operator's certificate, if the decider has --admin-client-ca")
	flags.StringVar(&a.key, "key", "", "`file` with the key of --cert")
	flags.StringVar(&a.token, "token-file", "", "`file` with an operator's token in its first line (default the environment's "+tokenVariable+")")
	flags.DurationVar(&a.Timeout, "timeout", 10*time.Second, "how long to wait for the answer")
}

// Use calls f with a client of the decider, for at most a.Timeout. Errors begin with the name
// of cmd.
func (a *Decider) Use(cmd *cobra.Command, f func(ctx context.Context, c *Client) error) error {
	failed := func(err error) error {
		return fmt.Errorf("%s: %w", command.PathOf(cmd), err)
	}
	c, err := a.Client()
	if err != nil {
		return failed(err)
	}
	ctx := cmd.Context()
	if a.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.Timeout)
		defer cancel()
	}
	if err := f(ctx, c); err != nil {
		return failed(err)
	}
	return nil
}

// Client returns a client of the decider, which waits for each answer for a.Timeout.
func (a *Decider) Client() (*Client, error) {
	if a.Address == "" {
		return nil, errors.New("--admin: say where a decider serves its operators, as in 10.0.0.7:7936")
	}
	if _, port, err := net.SplitHostPort(a.Address); err != nil || strings.Contains(port, "/") {
		return nil, fmt.Errorf("--admin %q: write host:port and nothing else, as in 10.0.0.7:7936", a.Address)
	}
	c := &Client{client: http.DefaultClient, base: "http://" + a.Address, token: os.Getenv(tokenVariable), wait: a.Timeout}
	if a.token != "" {
		var err error
		if c.token, err = readToken(a.token); err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
	}
	if a.ca == "" && a.cert == "" && a.key == "" {
		return c, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		text, err := read(a.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", a.ca)
		}
	}
	if a.cert != "" || a.key != "" {
		own, err := readPair(a.cert, a.key)
		if err != nil {
			return nil, fmt.Errorf("--cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	c.client, c.base = &http.Client{Transport: &http.Transport{TLSClientConfig: config}}, "https://"+a.Address
	return c, nil
}

// read returns the text in a file, which may be a pipe.
func read(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	text, err := textfile.Text(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return text, nil
}

// readToken returns the token in a file. It refuses an empty file: requests with an empty token have no rights.
func readToken(file string) (string, error) {
	text, err := read(file)
	if err != nil {
		return "", err
	}
	line, err := textfile.FirstLine(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w: put the token there", file, err)
	}
	return strings.TrimSpace(line), nil
}

// readPair returns the certificate and the key in two files.
func readPair(cert, key string) (tls.Certificate, error) {
	certificate, err := read(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	secret, err := read(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, secret)
}
