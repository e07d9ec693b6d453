// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/sourcetest"
	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) { waittest.Main(m) }

// patience bounds how long a test waits for what must come.
const patience = time.Minute

func text(limit int) string { return fmt.Sprintf("limits: [{key: a, limit: %d/s}]\n", limit) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// news is one call of update.
type news struct {
	limit rate.Limit
	err   error
}

// watched is a running Watch.
type watched struct {
	t    *testing.T
	path string
	news chan news
}

// watching loads limits.yaml in a new directory, which has a limit of 1/s,
// and watches it until the test ends. The poll is far off unless options
// say otherwise, so what arrives was notified.
func watching(t *testing.T, options ...Option) *watched {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "config")
	must(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "limits.yaml")
	write(t, path, text(1))
	return watchingAt(t, path, options...)
}

func watchingAt(t *testing.T, path string, options ...Option) *watched {
	t.Helper()
	s := New(path, append([]Option{WithPoll(time.Hour), WithSettle(10 * time.Millisecond)}, options...)...)
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &watched{t: t, path: path, news: make(chan news, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Watch(ctx, func(s *dynamicconfig.Snapshot, err error) {
			n := news{err: err}
			if s != nil {
				r, _ := s.Match("a")
				n.limit = r.Limit
			}
			w.news <- n
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
	return w
}

func (w *watched) next() news {
	w.t.Helper()
	select {
	case n := <-w.news:
		return n
	case <-time.After(patience):
		w.t.Fatal("no update came")
		return news{}
	}
}

// expect waits for limit, and takes nothing else.
func (w *watched) expect(limit rate.Limit) {
	w.t.Helper()
	if n := w.next(); n.err != nil || n.limit != limit {
		w.t.Fatalf("update = %+v, want %v", n, limit)
	}
}

// reaches waits for limit, whatever comes before it.
func (w *watched) reaches(limit rate.Limit) {
	w.t.Helper()
	for n := w.next(); n.err != nil || n.limit != limit; {
		n = w.next()
	}
}

// expectError waits for an error that has part in its text.
func (w *watched) expectError(part string) {
	w.t.Helper()
	if n := w.next(); n.err == nil || !strings.Contains(n.err.Error(), part) {
		w.t.Fatalf("update = %+v, want an error with %q", n, part)
	}
}

func TestWrittenInPlace(t *testing.T) {
	w := watching(t)
	for i := 2; i < 6; i++ {
		write(t, w.path, text(i))
		w.expect(rate.Limit(i))
	}
}

func TestRenamedIntoPlace(t *testing.T) {
	w := watching(t)
	for i := 2; i < 6; i++ {
		write(t, w.path+".tmp", text(i))
		must(t, os.Rename(w.path+".tmp", w.path))
		w.expect(rate.Limit(i))
	}
}

func TestBackedUpAndRewritten(t *testing.T) { // as vim does
	w := watching(t)
	for i := 2; i < 6; i++ {
		must(t, os.Rename(w.path, w.path+"~"))
		write(t, w.path, text(i))
		must(t, os.Remove(w.path+"~"))
		w.expect(rate.Limit(i))
	}
}

func TestDeletedAndCreated(t *testing.T) {
	w := watching(t)
	must(t, os.Remove(w.path))
	w.expectError("missing")
	write(t, w.path, text(2))
	w.expect(2)
	must(t, os.Remove(w.path))
	w.expectError("missing")
	write(t, w.path, text(2)) // what it was before is news after an error
	w.expect(2)
}

func TestWrittenInPieces(t *testing.T) {
	w := watching(t, WithSettle(200*time.Millisecond))
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	for _, piece := range strings.SplitAfter(text(2), " ") {
		_, err := f.WriteString(piece)
		must(t, err, f.Sync())
	}
	must(t, f.Close())
	w.expect(2) // and nothing broken before
}

// What is broken when it is first read is read again before it is told.
func TestTruncatedForAMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, path, "")
	var told []error
	w := &looking{source: New(path), update: func(_ *dynamicconfig.Snapshot, err error) { told = append(told, err) }}
	if again := w.look(); len(told) != 0 || !again {
		t.Fatalf("told at once: %v; reads again: %v", told, again)
	}
	write(t, path, "limits: [broken]")
	w.look()
	if len(told) != 0 {
		t.Fatalf("told while it changes: %v", told)
	}
	w.look()
	if len(told) != 1 || told[0] == nil {
		t.Fatalf("told %v", told)
	}
	write(t, path, text(1))
	w.look()
	w.look()
	if len(told) != 2 || told[1] != nil {
		t.Fatalf("told %v", told)
	}
}

func TestBrokenThenRepaired(t *testing.T) {
	w := watching(t)
	write(t, w.path, "limits: [{key: a, limit: 2/w}]\n")
	w.expectError("limits.yaml:1:26:")
	write(t, w.path, "")
	w.expectError("no content")
	write(t, w.path, text(2))
	w.expect(2)
}

func TestChangedBetweenLoadAndWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, path, text(1))
	s := New(path, WithPoll(time.Hour), WithSettle(time.Millisecond))
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, path, text(2))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var limits []rate.Limit
	err := s.Watch(ctx, func(s *dynamicconfig.Snapshot, _ error) {
		limits = append(limits, s.Rules()[0].Limit)
		cancel()
	})
	if err != nil || len(limits) != 1 || limits[0] != 2 {
		t.Errorf("updates %v, %v", limits, err)
	}
}

// A ConfigMap volume: limits.yaml -> ..data/limits.yaml, ..data -> a
// directory with a timestamp. An update makes a new such directory and
// renames a new ..data over the old one.
func TestConfigMapSwaps(t *testing.T) {
	dir := t.TempDir()
	version := func(i int) string {
		name := fmt.Sprintf("..2026_01_01_%d", i)
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		write(t, filepath.Join(dir, name, "limits.yaml"), text(i))
		return name
	}
	path := filepath.Join(dir, "limits.yaml")
	must(t,
		os.Symlink(version(1), filepath.Join(dir, "..data")),
		os.Symlink("..data/limits.yaml", path))
	w := watchingAt(t, path)
	for i := 2; i < 6; i++ {
		must(t,
			os.Symlink(version(i), filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")),
			os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_01_01_%d", i-1))))
		w.expect(rate.Limit(i))
	}
}

func TestTargetOfASymlinkIsWritten(t *testing.T) {
	target := filepath.Join(t.TempDir(), "elsewhere.yaml")
	write(t, target, text(1))
	path := filepath.Join(t.TempDir(), "limits.yaml")
	must(t, os.Symlink(target, path))
	w := watchingAt(t, path)
	for i := 2; i < 5; i++ {
		write(t, target, text(i))
		w.expect(rate.Limit(i))
	}
}

func TestDirectoryReplaced(t *testing.T) {
	w := watching(t)
	dir := filepath.Dir(w.path)
	for i := 2; i < 5; i++ {
		next := dir + ".next"
		must(t, os.Mkdir(next, 0o755))
		write(t, filepath.Join(next, "limits.yaml"), text(i))
		must(t,
			os.Rename(dir, fmt.Sprintf("%s.%d", dir, i)),
			os.Rename(next, dir))
		w.expect(rate.Limit(i))
	}
	write(t, w.path, text(9)) // the new directory is watched, too
	w.expect(9)
}

func TestDirectoryDeletedAndMadeAgain(t *testing.T) {
	w := watching(t)
	must(t, os.RemoveAll(filepath.Dir(w.path)))
	w.expectError("missing")
	must(t, os.Mkdir(filepath.Dir(w.path), 0o755))
	write(t, w.path, text(2))
	w.expect(2)
	write(t, w.path, text(3))
	w.expect(3)
}

func TestDirectoryIsASymlinkThatMoves(t *testing.T) {
	root := t.TempDir()
	for i := 1; i < 4; i++ {
		d := filepath.Join(root, fmt.Sprint("v", i))
		must(t, os.Mkdir(d, 0o755))
		write(t, filepath.Join(d, "limits.yaml"), text(i))
	}
	link := filepath.Join(root, "current")
	must(t, os.Symlink("v1", link))
	w := watchingAt(t, filepath.Join(link, "limits.yaml"))
	for i := 2; i < 4; i++ {
		must(t, os.Symlink(fmt.Sprint("v", i), link+".tmp"), os.Rename(link+".tmp", link))
		w.expect(rate.Limit(i))
	}
	write(t, w.path, text(9))
	w.expect(9)
}

// limits.yaml -> a/limits.yaml -> ../b/limits.yaml, and a is a link too: each hop is
// retargeted in turn.
func TestEachHopOfAChainOfLinksIsFollowed(t *testing.T) {
	root := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{root}, names...)...) }
	link := func(target, name string) {
		t.Helper()
		must(t, os.Symlink(target, name+".tmp"), os.Rename(name+".tmp", name))
	}
	for _, dir := range []string{"etc", "first", "second", "end"} {
		must(t, os.Mkdir(in(dir), 0o755))
	}
	for i := range 9 {
		write(t, in("end", fmt.Sprint(i, ".yaml")), text(i))
	}
	link("../end/1.yaml", in("first", "limits.yaml"))
	link("../end/2.yaml", in("second", "limits.yaml"))
	link("first", in("current"))
	link("../current/limits.yaml", in("etc", "limits.yaml"))
	w := watchingAt(t, in("etc", "limits.yaml"))
	link("../end/3.yaml", in("first", "limits.yaml")) // the last hop
	w.expect(3)
	link("second", in("current")) // a directory in the middle
	w.expect(2)
	link(in("end", "4.yaml"), in("etc", "limits.yaml")) // the first hop
	w.expect(4)
	write(t, in("end", "4.yaml"), text(5)) // what it leads to
	w.expect(5)
	link(in("current", "..", "end", "6.yaml"), in("etc", "limits.yaml"))
	w.expect(6)
	must(t, os.Mkdir(in("end", "below"), 0o755))
	link("../end/below", in("etc", "elsewhere"))
	link("elsewhere/../7.yaml", in("etc", "limits.yaml")) // above what a link leads to, and not in etc
	w.expect(7)
	write(t, in("end", "7.yaml"), text(8))
	w.expect(8)
}

// A writer that rests half-way for as long as it likes is not read before it is done.
func TestAFileIsNotReadWhileItIsWritten(t *testing.T) {
	w := watching(t)
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	_, err = f.WriteString(text(2)) // valid already
	must(t, err, f.Sync())
	reader, err := os.Open(w.path)
	must(t, err)
	defer reader.Close()
	if _, err := filewatch.Read(w.path, 1<<20); !errors.Is(err, filewatch.ErrWriting) {
		if runtime.GOOS == "linux" {
			t.Errorf("half of it is read: %v", err)
		}
		t.Skip("this system does not tell who writes")
	}
	write(t, filepath.Join(filepath.Dir(w.path), "other.yaml"), "") // wakes the watch
	_, err = f.WriteString("unmatched: deny\n")
	must(t, err, f.Close())
	w.expect(2)
	if len(w.news) > 0 {
		t.Errorf("also told %+v", <-w.news)
	}
}

// A file that is being written when Load is called is read when the writer has closed it.
func TestLoadWaitsForTheWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString("limits:\n  - {key: a, limit: 1/s}\n") // valid already
	must(t, err)
	if _, err := filewatch.Read(path, 1<<20); !errors.Is(err, filewatch.ErrWriting) {
		t.Skipf("this system does not tell who writes: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		var load sync.WaitGroup
		defer load.Wait()
		load.Go(func() {
			snapshot, err := New(path).Load(t.Context())
			if err != nil || len(snapshot.Rules()) != 2 {
				t.Errorf("Load = %v, %v; want both rules", snapshot, err)
			}
		})
		synctest.Wait() // Load has looked
		_, err := f.WriteString("  - {key: b, limit: 1/s}\n")
		must(t, err, f.Close())
	})
}

// Load does not wait for ever.
func TestLoadSaysThatTheFileIsBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	if _, err := filewatch.Read(path, 1<<20); !errors.Is(err, filewatch.ErrWriting) {
		t.Skipf("this system does not tell who writes: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := New(path).Load(t.Context()); !errors.Is(err, filewatch.ErrWriting) || time.Since(began) != time.Second {
			t.Errorf("Load = %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := New(path).Load(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Load = %v", err)
		}
	})
}

// No notification comes for folders that are not there yet, as while a disk is mounted.
func TestWhatCannotBeReadIsTriedAgainSoon(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "disk", "of", "config", "limits.yaml")
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	write(t, path, text(1))
	w := watchingAt(t, path)
	must(t, os.RemoveAll(filepath.Join(dir, "disk")))
	w.expectError("missing")
	later := filepath.Join(dir, "later", "of", "config")
	must(t, os.MkdirAll(later, 0o755))
	write(t, filepath.Join(later, "limits.yaml"), text(2))
	must(t, os.Rename(filepath.Join(dir, "later"), filepath.Join(dir, "disk")))
	w.expect(2)
}

func TestThePollIsEnough(t *testing.T) {
	w := watching(t, WithPoll(5*time.Millisecond), func(s *Source) { s.options.Deaf = true })
	for i := 2; i < 5; i++ {
		write(t, w.path+".tmp", text(i))
		must(t, os.Rename(w.path+".tmp", w.path))
		w.expect(rate.Limit(i))
	}
	must(t, os.Remove(w.path))
	w.expectError("missing")
}

// What other files do, and what leaves the content as it was, is no news.
// Nothing notifies of a folder that is replaced two levels above the file, and a file system over a
// network notifies of nothing that others write. Both are noticed long before the poll.
func TestWhatNothingNotifiesOfIsNoticed(t *testing.T) {
	unnotified := func(s *Source) { s.options.Poll, s.options.Deaf = 0, true }
	soon := func(t *testing.T, w *watched, limit rate.Limit) {
		t.Helper()
		began := time.Now()
		if w.reaches(limit); time.Since(began) > 2*time.Second {
			t.Fatalf("noticed after %v", time.Since(began))
		}
	}
	t.Run("a file", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			above := filepath.Join(t.TempDir(), "etc")
			path := filepath.Join(above, "config", "limits.yaml")
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			write(t, path, text(1))
			w := watchingAt(t, path, unnotified)

			next := filepath.Join(t.TempDir(), "etc")
			must(t, os.MkdirAll(filepath.Join(next, "config"), 0o755))
			write(t, filepath.Join(next, "config", "limits.yaml"), text(2))
			must(t, os.Rename(above, above+".old"), os.Rename(next, above))
			soon(t, w, 2)
			write(t, path, text(30))
			soon(t, w, 30)
		})
	})
	t.Run("a folder with a link", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir, real := t.TempDir(), filepath.Join(t.TempDir(), "real.yaml")
			path := filepath.Join(dir, "limits.yaml")
			write(t, real, text(1))
			must(t, os.Symlink(real, path))
			w := watchingAt(t, dir, unnotified)
			write(t, real, text(20))
			soon(t, w, 20)
			must(t, os.Remove(path))
			write(t, path, text(300))
			soon(t, w, 300)
		})
	})
}

func TestNothingNewIsNotTold(t *testing.T) {
	w := watching(t)
	write(t, filepath.Join(filepath.Dir(w.path), "other.yaml"), text(7))
	must(t, os.Chmod(w.path, 0o600))
	write(t, w.path+".tmp", text(1))
	must(t, os.Rename(w.path+".tmp", w.path))
	write(t, w.path, text(2))
	w.expect(2)
	if len(w.news) > 0 {
		t.Errorf("also told %+v", <-w.news)
	}
}

// The same mistake is told once, however often it is read.
func TestABrokenFileIsToldOnce(t *testing.T) {
	w := watching(t, WithPoll(2*time.Millisecond))
	write(t, w.path, "broken\n")
	w.expectError("is the text")
	write(t, w.path, text(2))
	for n := w.next(); n.limit != 2; n = w.next() {
		if strings.Contains(n.err.Error(), "is the text") {
			t.Fatalf("told again: %v", n.err)
		}
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	big := filepath.Join(dir, "big")
	write(t, big, strings.Repeat("#", dynamicconfig.MaxSize+5))
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "missing",
		dir:                        "no name in the folder " + dir + " ends in .yaml or .yml: write a file",
		"":                         "its path is empty: name a file or a folder",
		pipe:                       "not a regular file",
		big:                        "use at most 1048576",
	} {
		if s, err := New(path).Load(t.Context()); s != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load of %s = %v, %v; want %q", filepath.Base(path), s, err, want)
		}
	}
	if _, err := New(filepath.Join(dir, "none")).Load(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

func TestLiveKeepsTheLastGoodFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, path, text(1))
	live := dynamicconfig.NewLive(nil)
	changed := make(chan rate.Limit, 10)
	defer live.Subscribe(func(_, s *dynamicconfig.Snapshot) { changed <- s.Rules()[0].Limit })()
	refused := make(chan string, 10)
	logger := slog.New(slog.NewTextHandler(lines(refused), &slog.HandlerOptions{Level: slog.LevelError}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	done := make(chan struct{})
	go func() {
		defer close(done)
		live.Run(ctx, New(path, WithPoll(time.Hour), WithSettle(5*time.Millisecond)), logger)
	}()
	wait := func(want rate.Limit) {
		t.Helper()
		select {
		case got := <-changed:
			if got != want {
				t.Fatalf("limit %v, want %v", got, want)
			}
		case <-ctx.Done():
			t.Fatal("no change came")
		}
	}
	wait(1)
	write(t, path, "limits: [oops]\n")
	select {
	case <-refused:
	case <-ctx.Done():
		t.Fatal("nothing was logged")
	}
	if r, _ := live.Current().Match("a"); r == nil || r.Limit != 1 || live.Rejected() != 1 {
		t.Errorf("rule %+v, rejected %d", r, live.Rejected())
	}
	write(t, path, text(2))
	wait(2)
	if live.LastError() != nil {
		t.Errorf("last error %v", live.LastError())
	}
	cancel()
	<-done
}

// lines is a writer that sends what is written.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestSource(t *testing.T) {
	for name, breakAt := range map[string]func(path string) error{
		"broken": func(path string) error { return os.WriteFile(path, []byte("limits: [oops]\n"), 0o600) },
		"gone":   os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			sourcetest.Source(t, func(t *testing.T) sourcetest.Place {
				path := filepath.Join(t.TempDir(), "limits.yaml")
				return sourcetest.Place{
					Source: New(path, WithPoll(time.Hour), WithSettle(5*time.Millisecond)),
					Put: func(text string) {
						write(t, path+".tmp", text)
						must(t, os.Rename(path+".tmp", path))
					},
					Break: func() { must(t, breakAt(path)) },
				}
			})
		})
	}
}

func TestAFolderIsASource(t *testing.T) {
	for name, breakAt := range map[string]func(path string) error{
		"broken": func(path string) error { return os.WriteFile(path, []byte("limits: {}"), 0o600) },
		"gone":   os.Remove,
		"the same twice": func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), "b.yml"), []byte(text(1)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sourcetest.Source(t, func(t *testing.T) sourcetest.Place {
				dir := t.TempDir()
				path := filepath.Join(dir, "a.yaml")
				write(t, filepath.Join(dir, "README"), "no limits")
				write(t, filepath.Join(dir, ".hidden.yaml"), "no limits")
				return sourcetest.Place{
					Source: New(dir, WithPoll(time.Hour), WithSettle(5*time.Millisecond)),
					Put: func(text string) {
						write(t, path+".tmp", text)
						must(t, os.RemoveAll(filepath.Join(dir, "b.yml")), os.Rename(path+".tmp", path))
					},
					Break: func() { must(t, breakAt(path)) },
				}
			})
		})
	}
}

// Kubernetes makes a ConfigMap a folder of links to a folder that is replaced as a whole.
func TestAFolderOfLinksIsFollowed(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "..data")
	for i, limit := range []int{1, 2} {
		data := filepath.Join(dir, fmt.Sprintf("..version%d", i))
		must(t, os.Mkdir(data, 0o700))
		write(t, filepath.Join(data, "a.yaml"), text(limit))
	}
	must(t, os.Symlink("..version0", link), os.Symlink(filepath.Join("..data", "a.yaml"), filepath.Join(dir, "a.yaml")))
	source := New(dir, WithPoll(time.Hour), WithSettle(5*time.Millisecond))
	if _, err := source.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	changed := make(chan rate.Limit, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = source.Watch(ctx, func(s *dynamicconfig.Snapshot, err error) {
			if err == nil {
				changed <- s.Rules()[0].Limit
			}
		})
	}()
	must(t, os.Symlink("..version1", link+".tmp"), os.Rename(link+".tmp", link))
	select {
	case limit := <-changed:
		if limit != 2 {
			t.Errorf("the limit is %v", limit)
		}
	case <-time.After(patience):
		t.Error("the change is not seen")
	}
	cancel()
	<-done
}
