// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/nodeload/workload"
	"github.com/headgate/headgate/ringpop"
)

// Run measures one node among config's hosts. The command is that of the node
// under test: a process that calls Serve. When Run returns, it has ended.
func Run(ctx context.Context, config Config, command func(ctx context.Context) *exec.Cmd) (result Result, err error) {
	if err := config.Validate(); err != nil {
		return result, fmt.Errorf("nodeload: %w", err)
	}
	config = config.withDefaults()
	p, err := listen(ctx, config)
	if err != nil {
		return result, err
	}
	// The node goes first, for it to have no reason to complain.
	defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
	n, err := spawn(command(ctx), setup{config, p.addresses})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, n.wait()) }()
	ring, err := ringpop.New(workload.Members(append([]string{n.address}, p.addresses...)), 0)
	if err != nil {
		return result, err
	}
	var owned []string
	for _, key := range workload.Keys(config.Keys) {
		if ring.Owner(key) == n.address {
			owned = append(owned, key)
		}
	}
	if err := p.start(ctx, n.address); err != nil {
		return result, err
	}
	if _, err := n.ask(use); err != nil {
		return result, err
	}
	p.use(ctx, owned)
	if err := workload.Pause(ctx, config.Interval*time.Duration(config.Warmup)); err != nil {
		return result, err
	}
	from, err := n.ask(begin)
	if err != nil {
		return result, err
	}
	before := p.count()
	if err := workload.Pause(ctx, config.Interval*time.Duration(config.Intervals)); err != nil {
		return result, err
	}
	after := p.count()
	to, err := n.ask(end)
	if err != nil {
		return result, err
	}
	return newResult(config, len(owned), from, to, before, after), nil
}

// counts are what peers have counted until now.
type counts struct {
	sent, received, rowsSent, rowsReceived, calls, asksSent, asksReceived, failed int64

	took []time.Duration // of reports that were answered
	late []time.Duration
}

func (p *peers) count() counts {
	p.mu.Lock()
	defer p.mu.Unlock()

	return counts{
		p.carried.Sent.Load(), p.carried.Received.Load(), p.rowsSent.Load(), p.rowsReceived.Load(), p.calls.Load(),
		p.asksSent.Load(), p.asksReceived.Load(), p.failed.Load(),
		slices.Clone(p.took), slices.Clone(p.late),
	}
}

// process is the node under test, seen from here.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	address string
}

func spawn(cmd *exec.Cmd, s setup) (*process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the node: %w", err)
	}
	n := &process{cmd: cmd, in: in, out: bufio.NewReader(out)}
	first, err := json.Marshal(s)
	if err != nil {
		return nil, errors.Join(err, n.wait())
	}
	var h hello
	if err := n.say(string(first), &h); err != nil {
		return nil, errors.Join(err, n.wait())
	}
	n.address = h.Address
	return n, nil
}

func (n *process) ask(question string) (r reading, err error) {
	err = n.say(question, &r)
	return r, err
}

func (n *process) say(line string, answer any) error {
	if _, err := io.WriteString(n.in, line+"\n"); err != nil {
		return fmt.Errorf("tell the node: %w", err)
	}
	answered, err := n.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("hear from the node: %w", err)
	}
	return json.Unmarshal(answered, answer)
}

// wait ends the node and returns when it has.
func (n *process) wait() error {
	err := n.in.Close()
	if waited := n.cmd.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("the node: %w", waited))
	}
	return err
}
