// SPDX-License-Identifier: Apache-2.0

package access

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

// Config names the files that say who may come in.
type Config struct {
	Programs, Operators, Deciders certs.Files // without a certificate: plain text
	Policy                        string      // default none: programs may do everything
	Staff                         string      // the policy of operators; default none
}

// Access is who may come in, and how. Its files are followed until Close. Use Open.
type Access struct {
	Programs, Operators, Deciders *certs.Certificates // nil: plain text

	Policy *follow.Files[*callers.Policy] // nil: everybody may do everything
	Staff  *follow.Files[*callers.Policy] // nil: operators have no API

	// Denied is called for callers that may not use a key; nil: none. Set it before
	// anything is served.
	Denied func(key string, why error)

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	loops  sync.WaitGroup
}

// Open reads the files that c names. After an error, nothing runs.
func Open(c Config, log *slog.Logger) (_ *Access, err error) {
	a := new(Access)
	a.ctx, a.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if a.Programs, err = a.certificates(c.Programs, "edge and http", log); err != nil {
		return nil, err
	}
	if a.Operators, err = a.certificates(c.Operators, "admin", log); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if a.Deciders, err = a.certificates(c.Deciders, "cluster", log); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if a.Policy, err = a.rights("the policy", c.Policy, log); err != nil {
		return nil, err
	}
	if a.Staff, err = a.rights("the file of operators", c.Staff, log); err != nil {
		return nil, err
	}
	return a, nil
}

// certificates reads the certificates in files, and follows them; nil if there are none.
func (a *Access) certificates(files certs.Files, at string, log *slog.Logger) (*certs.Certificates, error) {
	if !files.Set() {
		return nil, nil
	}
	c, err := certs.Open(files, log.With("at", at))
	if err != nil {
		return nil, err
	}
	a.Follow(c.Run)
	return c, nil
}

// rights reads the policy in file, and follows it; nil if there is none.
func (a *Access) rights(what, file string, log *slog.Logger) (*follow.Files[*callers.Policy], error) {
	if file == "" {
		return nil, nil
	}
	p, err := openPolicy(what, file, log)
	if err != nil {
		return nil, err
	}
	a.Follow(p.Run)
	return p, nil
}

// Certificates are those that there are, by the names of their checks.
func (a *Access) Certificates() map[string]*certs.Certificates {
	all := map[string]*certs.Certificates{"edge certificate": a.Programs, "admin certificate": a.Operators, "cluster certificate": a.Deciders}
	maps.DeleteFunc(all, func(_ string, c *certs.Certificates) bool { return c == nil })
	return all
}

// Policies are the files of rights, by the names of their checks.
func (a *Access) Policies() map[string]*follow.Files[*callers.Policy] {
	all := map[string]*follow.Files[*callers.Policy]{"policy": a.Policy, "operators": a.Staff}
	maps.DeleteFunc(all, func(_ string, p *follow.Files[*callers.Policy]) bool { return p == nil })
	return all
}

// NewestPolicy says what is wrong with a file of rights.
func NewestPolicy(of *follow.Files[*callers.Policy]) error {
	if of.Newest() {
		return nil
	}
	return errors.New("the file cannot be used, and its last good text stays in force: mend the file; the log says what is wrong")
}

// CheckPolicy returns what is wrong with a file of rights that is called what. No file is
// good.
func CheckPolicy(what, file string, log *slog.Logger) error {
	if file == "" {
		return nil
	}
	_, err := openPolicy(what, file, log)
	return err
}

// maxPolicy bounds a file of rights, in bytes.
const maxPolicy = 1 << 20

func openPolicy(what, file string, log *slog.Logger) (*follow.Files[*callers.Policy], error) {
	parse := func(texts []string) (*callers.Policy, error) {
		p, err := callers.Parse([]byte(texts[0]))
		if err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
		return p, err
	}
	return follow.Open(what, []string{file}, maxPolicy, parse, log)
}

// who is the caller that shows proof.
func (a *Access) who(proof callers.Proof) (*callers.Caller, error) {
	if a.Policy == nil {
		return nil, nil
	}
	return a.Policy.Current().Who(proof)
}

// Follow runs loop until Close.
func (a *Access) Follow(loop func(ctx context.Context)) {
	a.loops.Go(func() { loop(a.ctx) })
}

// Close ends what follows files. It may be called again, and on nil.
func (a *Access) Close() {
	if a == nil {
		return
	}
	a.cancel()
	a.loops.Wait()
}
