// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Mark separates what is counted from what is not: callgrind dumps and resets
// its counters at each call. Batches are counted from the first call to the
// second, from the third to the fourth, and so on.
//
//go:noinline
func Mark() {}

// markSymbol matches Mark in callgrind's patterns.
const markSymbol = "*/internal/costs.Mark"

// ErrNoCallgrind is wrapped by errors which say that this machine cannot count
// instructions. Their text says what to do.
var ErrNoCallgrind = errors.New("cannot count instructions")

// features of the CPU that code may use: those which every machine of the last
// fifteen years has. Without a fixed list, counts would depend on the machine.
const features = "cpu.all=off,cpu.sse3=on,cpu.ssse3=on,cpu.sse41=on,cpu.sse42=on,cpu.popcnt=on,cpu.aes=on,cpu.pclmulqdq=on"

// CanCount says whether CountInstructions can work here; if not, the error is
// an ErrNoCallgrind.
func CanCount() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w on %s: the features of its CPUs are not known here", ErrNoCallgrind, runtime.GOARCH)
	}
	if _, err := exec.LookPath("valgrind"); err != nil {
		return fmt.Errorf("%w: there is no valgrind; on Debian: apt-get install valgrind", ErrNoCallgrind)
	}
	return nil
}

// CountInstructions runs cmd under callgrind until it ends and returns the
// instructions of each batch that its main thread ran between Marks. The
// program has to lock its main goroutine to the thread, and to have a symbol
// table. The error is an ErrNoCallgrind if CanCount returns one, or if the CPU
// is too old.
func CountInstructions(cmd *exec.Cmd) ([]float64, error) {
	if err := CanCount(); err != nil {
		return nil, err
	}
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "costs")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd.Args = append([]string{
		valgrind, "--tool=callgrind", "--quiet",
		"--callgrind-out-file=" + filepath.Join(dir, "out"),
		"--separate-threads=yes", "--dump-before=" + markSymbol, "--dump-line=no",
		cmd.Path,
	}, cmd.Args[1:]...)
	cmd.Path = valgrind
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1,"+features)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run under callgrind: %w\n%s", err, tail(said.String()))
	}
	if strings.Contains(said.String(), "missing CPU support") {
		return nil, fmt.Errorf("%w: this CPU is too old: %s", ErrNoCallgrind, tail(said.String()))
	}
	return readBatches(dir)
}

// readBatches reads dumps called out.N-01, with N from 1, of which the even
// ones are batches. The last, out-01, is what came after the last Mark.
func readBatches(dir string) ([]float64, error) {
	var batches []float64
	for n := 2; ; n += 2 {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("out.%d-01", n)))
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		count, err := summary(data)
		if err != nil {
			return nil, fmt.Errorf("dump %d: %w", n, err)
		}
		batches = append(batches, count)
	}
	if len(batches) == 0 {
		return nil, errors.New("callgrind dumped nothing: did the program call Mark, and was it built with symbols?")
	}
	return batches, nil
}

// summary is what a dump says it counted.
func summary(dump []byte) (float64, error) {
	for line := range bytes.Lines(dump) {
		if rest, ok := bytes.CutPrefix(line, []byte("summary: ")); ok {
			return strconv.ParseFloat(string(bytes.TrimSpace(rest)), 64)
		}
	}
	return 0, errors.New("no summary in it")
}

// tail is the end of what a program said.
func tail(said string) string {
	const most = 2000
	said = strings.TrimSpace(said)
	if len(said) > most {
		said = "…" + said[len(said)-most:]
	}
	return said
}

// Toolchain names what instruction counts depend on: Go's release and target.
func Toolchain() string {
	return fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
