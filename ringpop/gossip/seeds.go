// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/hashicorp/memberlist"

	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/ringpop"
)

// Seeds returns where some hosts of the cluster gossip, each host:port. This
// host may be among them. It is called again and again, and must return when ctx ends. A call by Start
// lasts Config.JoinWithin at most, and a later one that or Config.Rejoin, whichever is
// longer. A Lookup of package dns is one.
type Seeds func(ctx context.Context) ([]string, error)

// List is Seeds that never change. Names are looked up each time.
func List(addresses ...string) Seeds {
	return func(context.Context) ([]string, error) { return slices.Clone(addresses), nil }
}

// File is Seeds in a file, one a line; # begins a comment. The file is read each time.
func File(path string) Seeds {
	return func(context.Context) ([]string, error) {
		text, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("gossip: seeds: %w", err)
		}
		seeds := lines(text)
		for _, s := range seeds {
			if err := dialable(s); err != nil {
				return nil, fmt.Errorf("gossip: seeds: %s: %w", path, err)
			}
		}
		return seeds, nil
	}
}

// maxFile bounds files of seeds and of keys, in bytes.
const maxFile = 1 << 20

// readFile returns what is in a file, no half of it while it is being written. It never blocks, as a
// pipe would: Stop waits for it.
func readFile(path string) ([]byte, error) {
	text, err := filewatch.Read(path, maxFile)
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

// lines returns what stands in the lines of text, without comments.
func lines(text []byte) (all []string) {
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, maxFile+1)
	for scan.Scan() {
		line, _, _ := strings.Cut(scan.Text(), "#")
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// maxAddress is the longest address, in bytes: a DNS name of 253 and a port.
const maxAddress = 253 + len(":65535")

func dialable(address string) error {
	if len(address) > maxAddress {
		return fmt.Errorf("%.100q… has %d bytes: an address has at most %d", address, len(address), maxAddress)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || port == "0" {
		return fmt.Errorf("%.100q is not host:port: write it as in 10.0.0.8:7946", address)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%.100q is no host that others can dial: name one", address)
	}
	return nil
}

// checkMember returns why h cannot be on a list of hosts: a Node refuses all of a list with such a host.
func checkMember(h ringpop.Host) error {
	if err := dialable(h.Address); err != nil {
		return err
	}
	return ringpop.ValidateMembers([]ringpop.Host{h})
}

// parseKeys reads keys in base64, one a line, the primary one first. Errors
// name the line and never the key.
func parseKeys(text []byte) ([][]byte, error) {
	var keys [][]byte
	for i, line := range lines(text) {
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || memberlist.ValidateKey(key) != nil {
			return nil, fmt.Errorf("key %d is not 16, 24 or 32 bytes in base64: make one with `openssl rand -base64 32`", i+1)
		}
		if !slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no key: make one with `openssl rand -base64 32`")
	}
	return keys, nil
}

// readKeys returns the keys in a file.
func readKeys(path string) ([][]byte, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("gossip: keys: %w", err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("gossip: keys: %s: %w", path, err)
	}
	return keys, nil
}

// rotate makes keys those of ring, the first one primary. It reports whether
// anything changed.
func rotate(ring *memberlist.Keyring, keys [][]byte) (bool, error) {
	before := ring.GetKeys()
	has := func(keys [][]byte, key []byte) bool {
		return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
	}
	if len(before) == len(keys) && bytes.Equal(before[0], keys[0]) && !slices.ContainsFunc(keys, func(k []byte) bool { return !has(before, k) }) {
		return false, nil
	}
	for _, k := range keys {
		if err := ring.AddKey(k); err != nil {
			return false, err
		}
	}
	if err := ring.UseKey(keys[0]); err != nil {
		return false, err
	}
	for _, k := range before {
		if !has(keys, k) {
			if err := ring.RemoveKey(k); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}
