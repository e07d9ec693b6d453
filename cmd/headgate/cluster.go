// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/daemon"
)

// maxCluster bounds an answer, in bytes.
const maxCluster = 64 << 20

func newCluster() *cobra.Command {
	var admin string
	var files adminTLS
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the members of a cluster as one decider sees them",
		Long: `cluster asks a running decider, at its --admin address, which members it knows: their
state, since when and why, and what part of all keys each owns. up: the member answers. down: it
does not answer, and others own its keys. left: it said that it ends. held: it came and
went too often, and waits. observer: it owns no keys on purpose.`,
		Example: `  headgate cluster --admin 10.0.0.7:9090
  headgate cluster --admin 10.0.0.7:9090 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, _, err := net.SplitHostPort(admin); err != nil {
				return errors.New("cluster: --admin: say where a decider serves its operators, as in 10.0.0.7:9090")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			client, scheme, err := files.client()
			if err != nil {
				return fmt.Errorf("cluster: %w", err)
			}
			cluster, err := askCluster(ctx, client, scheme+"://"+admin+"/cluster")
			if err != nil {
				return fmt.Errorf("cluster: ask the decider at %s: %w", admin, err)
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(cluster)
			}
			return printCluster(cmd.OutOrStdout(), cluster, time.Now())
		},
	}
	cmd.Flags().StringVar(&admin, "admin", "", "where a decider serves its operators, `host:port` (required)")
	cmd.Flags().StringVar(&files.ca, "ca", "", "`file` with the authority of the decider's --admin-cert (default plain text)")
	cmd.Flags().StringVar(&files.cert, "cert", "", "`file` with an operator's certificate, if the decider has --admin-client-ca")
	cmd.Flags().StringVar(&files.key, "key", "", "`file` with the key of --cert")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	return cmd
}

// adminTLS are files of who asks a decider at its --admin address.
type adminTLS struct{ ca, cert, key string }

// client is what asks, and the scheme of its URLs.
func (f adminTLS) client() (client *http.Client, scheme string, err error) {
	if f == (adminTLS{}) {
		return http.DefaultClient, "http", nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, "", err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, "", fmt.Errorf("%s has no certificate in PEM", f.ca)
		}
	}
	if f.cert != "" || f.key != "" {
		own, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, "", fmt.Errorf("--cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}, "https", nil
}

func askCluster(ctx context.Context, client *http.Client, url string) (c daemon.Cluster, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return c, err
	}
	response, err := client.Do(request)
	if err != nil {
		return c, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return c, fmt.Errorf("it answers %s: is this its --admin address?", response.Status)
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxCluster)).Decode(&c)
	return c, err
}

func printCluster(out io.Writer, c daemon.Cluster, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEMBER\tSTATE\tFOR\tKEYS\tLABELS\tWHY")
	for _, m := range c.Members {
		since := "-"
		if !m.Since.IsZero() {
			since = now.Sub(m.Since).Round(time.Second).String()
		}
		name := m.Address
		if name == c.Host {
			name += " (asked)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f%%\t%s\t%s\n", name, m.State, since, 100*m.Share, m.Labels, m.Why)
	}
	return w.Flush()
}
