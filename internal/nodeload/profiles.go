// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// profiles are written into dir; none if it is empty.
type profiles struct {
	dir string
	cpu *os.File // being written, or nil
}

// start begins to measure.
func (p *profiles) start() error {
	if p.dir == "" {
		return nil
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	var err error
	if p.cpu, err = os.Create(filepath.Join(p.dir, "cpu.pprof")); err != nil {
		return err
	}
	runtime.SetMutexProfileFraction(1)
	return pprof.StartCPUProfile(p.cpu)
}

// stop ends the CPU profile, if there is one.
func (p *profiles) stop() error {
	if p.cpu == nil {
		return nil
	}
	pprof.StopCPUProfile()
	err := p.cpu.Close()
	p.cpu = nil
	return err
}

// write ends measuring and writes what is left to write.
func (p *profiles) write() error {
	if p.dir == "" {
		return nil
	}
	errs := []error{p.stop()}
	runtime.GC() // the heap profile is as of the last one
	for _, name := range []string{"heap", "allocs", "mutex"} {
		f, err := os.Create(filepath.Join(p.dir, name+".pprof"))
		if err != nil {
			return err
		}
		errs = append(errs, pprof.Lookup(name).WriteTo(f, 0), f.Close())
	}
	return errors.Join(errs...)
}
