// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Open makes a Store for a URL, etcd://HOST:PORT,HOST:PORT/PREFIX; etcds: is the same with
// TLS. Certificates and the user come from the variables of the environment that etcdctl
// reads: ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY, ETCDCTL_USER as in NAME:PASSWORD.
func Open(url string, options ...Option) (*Store, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	hosts, prefix, _ := strings.Cut(rest, "/")
	var config clientv3.Config
	web := "http://"
	switch scheme {
	case "etcd":
	case "etcds":
		web = "https://"
		tls := transport.TLSInfo{
			TrustedCAFile: os.Getenv("ETCDCTL_CACERT"), CertFile: os.Getenv("ETCDCTL_CERT"), KeyFile: os.Getenv("ETCDCTL_KEY"),
		}
		var err error
		if config.TLS, err = tls.ClientConfig(); err != nil {
			return nil, fmt.Errorf("etcd: the certificates that ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY name: %w", err)
		}
	default:
		return nil, fmt.Errorf("etcd: %s:// is another scheme: write etcd://HOST:PORT/PREFIX", scheme)
	}
	if strings.ContainsAny(hosts, "@") {
		return nil, errors.New("etcd: the URL has a user, whom other users of this machine may see: put it into ETCDCTL_USER, as in NAME:PASSWORD")
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if _, port, err := net.SplitHostPort(host); err != nil || port == "" {
			return nil, fmt.Errorf("etcd: %q is not host:port: write etcd://HOST:PORT/PREFIX", host)
		}
		config.Endpoints = append(config.Endpoints, web+host)
	}
	config.Username, config.Password, _ = strings.Cut(os.Getenv("ETCDCTL_USER"), ":")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		options = append([]Option{WithPrefix(prefix)}, options...)
	}
	return New(config, options...)
}
