// SPDX-License-Identifier: Apache-2.0

// Package servertest runs servers of other projects for tests, by the scripts of this
// repository that install and start them, and kills them without warning.
//
//	var etcd = servertest.Server{Name: "etcd", Script: "../../scripts/etcd.sh", Answers: func(address string) bool { … }}
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		etcd.Remove()
//		os.Exit(code)
//	}
//
//	etcd.Start(t)
//	etcd.Kill()
//	etcd.Start(t) // with the data that it had
//
// Without the server, which only root can install, tests are skipped; in CI they fail.
//
// It knows no server by itself: each has a script.
package servertest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/waittest"
)

// Server is a server of a package's tests, which run one after the other.
type Server struct {
	// Name is what messages call it.
	Name string

	// Script installs it, with --install, and runs it, with PORT, DIR and Options.
	Script  string
	Options []string

	// Answers reports whether the server at address, host:port, is ready.
	Answers func(address string) bool

	dir     string
	port    int
	command *exec.Cmd // nil: it does not run
	output  bytes.Buffer
}

// Start starts the server, if it does not run, and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if s.command != nil {
		return
	}
	if s.dir == "" {
		s.prepare(t)
	}
	s.command = exec.CommandContext(context.Background(), "sh", append([]string{s.Script, strconv.Itoa(s.port), s.data()}, s.Options...)...)
	s.command.Stdout, s.command.Stderr = &s.output, &s.output
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // for Kill
	if err := s.command.Start(); err != nil {
		s.command = nil
		t.Fatal(err)
	}
	waittest.Until(t, s.Name+" answers", func() bool { return s.Answers(s.Address()) })
}

// prepare installs the server and finds a place for it.
func (s *Server) prepare(t testing.TB) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "sh", s.Script, "--install").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing, and CI must have it: %v\n%s", s.Name, err, out)
		}
		t.Skipf("%s is missing: %v\n%s", s.Name, err, out)
	}
	dir, err := os.MkdirTemp("", "headgate-"+s.Name) //nolint:usetesting // all tests of the package use it
	if err == nil {
		err = os.Chmod(dir, 0o755) // the server may be another user
	}
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	s.port = addresstest.Port(t)
}

// Address is the server's, host:port. It stays over a restart.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Kill ends the server and all its processes without warning, if it runs.
func (s *Server) Kill() {
	if s.command == nil {
		return
	}
	_ = syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL)
	_ = s.command.Wait() // it was killed
	s.command = nil
	// PostgreSQL does not start while this file names a process, and another one may have
	// the number of the one that was killed.
	_ = os.Remove(filepath.Join(s.data(), "postmaster.pid"))
}

// Remove kills the server, and removes its data.
func (s *Server) Remove() {
	s.Kill()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}
