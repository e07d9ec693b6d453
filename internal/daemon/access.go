// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/daemon/certs"
	"github.com/headgate/headgate/internal/daemon/follow"
)

// access is who may come in, and how. Its files are followed until close.
type access struct {
	programs, operators, deciders *certs.Certificates // nil: plain text

	policy *follow.Files[*callers.Policy] // nil: everybody may do everything
	staff  *follow.Files[*callers.Policy] // nil: operators have no API

	// denied is told of callers who may not use a key. It is set before anything is served.
	denied func(key string, why error)

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	loops  sync.WaitGroup
}

// newAccess reads the files that c names. After an error, nothing runs.
func newAccess(c Config, log *slog.Logger) (_ *access, err error) {
	a := new(access)
	a.ctx, a.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.programs, err = a.open(c.TLS.files(), "edge and http", log); err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	if a.operators, err = a.open(c.AdminTLS.files(), "admin", log); err != nil {
		return nil, fmt.Errorf("daemon: admin: %w", err)
	}
	if a.deciders, err = a.open(c.ClusterTLS.files(), "cluster", log); err != nil {
		return nil, fmt.Errorf("daemon: cluster: %w", err)
	}
	if c.Policy != "" {
		if a.policy, err = follow.Open("the policy", []string{c.Policy}, maxPolicy, parsePolicy, log); err != nil {
			return nil, fmt.Errorf("daemon: %w", err)
		}
		a.follow(a.policy.Run)
	}
	if c.Operators != "" {
		if a.staff, err = follow.Open("the file of operators", []string{c.Operators}, maxPolicy, parsePolicy, log); err != nil {
			return nil, fmt.Errorf("daemon: %w", err)
		}
		a.follow(a.staff.Run)
	}
	return a, nil
}

// certificates are those that there are, by the names of their checks.
func (a *access) certificates() map[string]*certs.Certificates {
	all := map[string]*certs.Certificates{"edge certificate": a.programs, "admin certificate": a.operators, "cluster certificate": a.deciders}
	maps.DeleteFunc(all, func(_ string, c *certs.Certificates) bool { return c == nil })
	return all
}

// checkPolicy says what is wrong with a file of rights.
func checkPolicy(of *follow.Files[*callers.Policy]) error {
	if of.Newest() {
		return nil
	}
	return errors.New("the file cannot be used, and its last good text stays in force: mend the file; the log says what is wrong")
}

// maxPolicy bounds the file of the policy, in bytes.
const maxPolicy = 1 << 20

func parsePolicy(texts []string) (*callers.Policy, error) { return callers.Parse([]byte(texts[0])) }

// who is the caller that shows proof.
func (a *access) who(proof callers.Proof) (*callers.Caller, error) {
	if a.policy == nil {
		return nil, nil
	}
	return a.policy.Current().Who(proof)
}

// follow runs loop until close.
func (a *access) follow(loop func(ctx context.Context)) {
	a.loops.Go(func() { loop(a.ctx) })
}

// close ends what follows files. It may be called again, and on nil.
func (a *access) close() {
	if a == nil {
		return
	}
	a.cancel()
	a.loops.Wait()
}
