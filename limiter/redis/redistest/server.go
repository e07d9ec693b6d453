// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server of a test. For one goroutine.
type Server struct {
	// Address is host:port; it stays over a Restart.
	Address string

	t       testing.TB
	dir     string
	options []string
	command *exec.Cmd
	output  *bytes.Buffer
}

// Start starts a server with no data. Options are as on redis-server's command
// line, e.g. "--maxmemory", "2mb". It is killed when the test ends.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	need(t)
	s := &Server{t: t, dir: t.TempDir(), options: options}
	t.Cleanup(s.Kill)
	for range 5 { // another process may take the port first
		s.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
		if s.try() == nil {
			return s
		}
	}
	t.Fatalf("no redis-server: %v", s.try())
	return nil
}

// Stop makes the server hang: it keeps its connections, and answers nothing.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Continue ends Stop. The server then carries out what was sent meanwhile.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

// Kill ends the server without warning, and waits until it is gone.
func (s *Server) Kill() {
	if s.command == nil {
		return
	}
	s.signal(syscall.SIGKILL)
	_ = s.command.Wait() // the error says that it was killed
	s.command = nil
}

// Restart kills the server, and starts it again, without data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.try(); err != nil {
		s.t.Fatal(err)
	}
}

// Client is a client of the test's own, closed when the test ends.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Address})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *Server) signal(sig syscall.Signal) {
	if s.command != nil {
		_ = s.command.Process.Signal(sig)
	}
}

// try starts the server and waits until it answers.
func (s *Server) try() error {
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return err
	}
	s.output = new(bytes.Buffer)
	s.command = exec.CommandContext(context.Background(), script(s.t), append([]string{port, s.dir}, s.options...)...)
	s.command.Stdout, s.command.Stderr = s.output, s.output
	if err := s.command.Start(); err != nil {
		s.command = nil
		return err
	}
	c := redis.NewClient(&redis.Options{Addr: s.Address, MaxRetries: -1})
	defer c.Close()
	if err := await(10*time.Second, func(ctx context.Context) error { return s.answers(ctx, c) }); err != nil {
		s.Kill()
		return fmt.Errorf("redis-server does not answer: %w\n%s", err, s.output)
	}
	return nil
}

// errTaken is the error where another redis-server has the port.
var errTaken = errors.New("another redis-server has the port")

// answers is nil once s answers c. Another test may have started a server on the port of s between freePort and now.
func (s *Server) answers(ctx context.Context, c *redis.Client) error {
	info, err := c.Info(ctx, "server").Result()
	if err == nil && !strings.Contains(info, fmt.Sprintf("\nprocess_id:%d\r", s.command.Process.Pid)) {
		return errTaken
	}
	return err
}

// await calls ask until it returns no error, or errTaken.
func await(longest time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil || errors.Is(err, errTaken) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// need skips the test if there is no redis-server, and fails it in CI.
func need(t testing.TB) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), script(t), "--install").CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("redis-server is missing, and CI must have it: %v\n%s", err, out)
	default:
		t.Skipf("redis-server is missing: %v\n%s", err, out)
	}
}

// script is the path of scripts/redis.sh, from any package of this repository.
func script(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "scripts", "redis.sh")
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("scripts/redis.sh is not above the test's folder")
		}
	}
}

// freePort is one that is free, as is the one 10000 above, where a cluster's
// nodes talk.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(12000) // the one 10000 above, too, is below those that the kernel gives out
		if free(port) && free(port+10000) {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func free(port int) bool {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
