// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/headgatepb/headgategrpc"
)

// clusterFiles are a decider's certificate of a, for a name that all deciders have.
func clusterFiles(t *testing.T, a *certtest.Authority, name string) ClusterTLS {
	t.Helper()
	cert, key := certtest.Encode(t, a.Issue(t, name, certtest.Loopback))
	return ClusterTLS{Cert: write(t, "cluster.pem", cert), Key: write(t, "cluster.key", key), CA: write(t, "cluster-ca.pem", a.PEM())}
}

// decidersWith are two deciders of one cluster, with these certificates.
func decidersWith(t *testing.T, files ...ClusterTLS) (all []*Daemon) {
	t.Helper()
	at := addresstest.Free(t, 2)
	for i := range at {
		c := config(t)
		c.Limits = write(t, "limits.yaml", "defaults: {update_interval: 100ms, ask_timeout: 10s}\nlimits: [{key: 'k*', limit: 1/s, burst: 1, algorithm: exact, fallback: closed}]")
		c.Listen, c.Members, c.ClusterTLS = at[i], at, files[i]
		all = append(all, start(t, c))
	}
	return all
}

// agree reports whether one event of some keys, of which each decider owns one at least, is allowed at
// both deciders: a decider that cannot ask the owner of a key allows nothing.
func agree(t *testing.T, all []*Daemon, round int) error {
	t.Helper()
	ring, err := ringpop.New([]ringpop.Host{{Address: all[0].Address()}, {Address: all[1].Address()}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	owners := make(map[string]bool)
	for i := 0; i < 8 || len(owners) < len(all); i++ {
		key := fmt.Sprintf("k%d-%d", round, i)
		owners[ring.Owner(key)] = true
		first, second := all[0].Node().For(key).Allow(), all[1].Node().For(key).Allow()
		if !first || second {
			return fmt.Errorf("%s: %v, then %v", key, first, second)
		}
	}
	return nil
}

func TestDecidersTalkTLSToEachOther(t *testing.T) {
	a := certtest.New(t)
	first, second := clusterFiles(t, a, "decider"), clusterFiles(t, a, "decider")
	first.Name, second.Name = "decider", "decider"
	all := decidersWith(t, first, second)
	round := 0
	agrees := func() bool { round++; return agree(t, all, round) == nil }
	eventually(t, "each asks the other", agrees)

	// Who calls a decider without a certificate of its authority, or with that of
	// somebody else, is not answered; nor is one that may call others.
	for who, c := range map[string]credentials.TransportCredentials{
		"plain text":             insecure.NewCredentials(),
		"no certificate":         credentials.NewTLS(&tls.Config{RootCAs: a.Pool(), ServerName: "decider"}),
		"another authority's":    credentials.NewTLS(&tls.Config{RootCAs: a.Pool(), ServerName: "decider", Certificates: []tls.Certificate{certtest.New(t).Issue(t, "decider")}}),
		"a program of the same":  credentials.NewTLS(&tls.Config{RootCAs: a.Pool(), ServerName: "decider", Certificates: []tls.Certificate{a.Issue(t, "program")}}),
		"a decider of the same!": credentials.NewTLS(&tls.Config{RootCAs: a.Pool(), ServerName: "decider", Certificates: []tls.Certificate{a.Issue(t, "decider")}}),
	} {
		conn, err := grpc.NewClient(all[0].config.Listen, grpc.WithTransportCredentials(c), grpc.WithNoProxy())
		if err != nil {
			t.Fatal(err)
		}
		_, err = headgategrpc.NewDeciderClient(conn).Update(t.Context(), &headgatepb.UpdateRequest{})
		if answered := err == nil || !strings.Contains(err.Error(), "code = Unavailable"); answered != strings.HasSuffix(who, "!") {
			t.Errorf("%s: %v", who, err)
		}
		conn.Close()
	}

	// Both get certificates of another authority, one after the other.
	next := certtest.New(t)
	both := write(t, "both.pem", a.PEM()+next.PEM())
	for _, f := range []ClusterTLS{first, second} {
		copyFile(t, both, f.CA)
	}
	for _, f := range []ClusterTLS{first, second} {
		cert, key := certtest.Encode(t, next.Issue(t, "decider"))
		copyFile(t, write(t, "c", cert), f.Cert)
		copyFile(t, write(t, "k", key), f.Key)
	}
	shows := func(d *Daemon) bool {
		conn, err := tls.Dial("tcp", d.config.Listen, &tls.Config{RootCAs: next.Pool(), ServerName: "decider", Certificates: []tls.Certificate{next.Issue(t, "decider")}})
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	eventually(t, "the new certificates are shown", func() bool { return shows(all[0]) && shows(all[1]) })
	eventually(t, "each still asks the other", agrees)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Deciders that do not trust each other answer for their own keys only.
func TestDecidersOfOtherAuthoritiesAreNoCluster(t *testing.T) {
	first, second := clusterFiles(t, certtest.New(t), "decider"), clusterFiles(t, certtest.New(t), "decider")
	first.Name, second.Name = "decider", "decider"
	if err := agree(t, decidersWith(t, first, second), 0); err == nil {
		t.Error("they ask each other")
	}
}

func TestOperatorsMeetTLS(t *testing.T) {
	a, operators := certtest.New(t), certtest.New(t)
	c := config(t)
	cert, key := certtest.Encode(t, a.Issue(t, "daemon", certtest.Loopback))
	c.Admin = "127.0.0.1:0"
	c.AdminTLS = TLS{Cert: write(t, "cert.pem", cert), Key: write(t, "key.pem", key), ClientCA: write(t, "operators.pem", operators.PEM())}
	d := start(t, c)
	if _, err := fetch(t, d.Admin(), trusting(t, a, operators, "ann")); err != nil {
		t.Error(err)
	}
	if _, err := fetch(t, d.Admin(), trusting(t, a, nil, "")); err == nil {
		t.Error("without a certificate, an operator is answered")
	}
	if status, err := get(t, httpTo(t, "tcp", d.Admin()), "/metrics"); err == nil && status != 400 {
		t.Errorf("plain text is answered: %d", status)
	}
}

func TestMistakesAboutClusterTLS(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"name the file with the authorities": func(c *Config) { c.ClusterTLS = ClusterTLS{Cert: "x", Key: "x"} },
		"no certificate: name its files":     func(c *Config) { c.ClusterTLS.Name = "x" },
		"no address for them":                func(c *Config) { c.AdminTLS = TLS{Cert: "x", Key: "x"} },
	} {
		c := config(t)
		change(&c)
		if d, err := Start(t.Context(), c, quiet); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
			if err == nil {
				_ = d.Stop(context.Background())
			}
		}
	}
}
