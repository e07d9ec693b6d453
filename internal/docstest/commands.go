// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// ranBy says which file runs a command that documents show and no rule
// below covers. The file must hold the command.
var ranBy = map[string]string{
	`curl --json '{"key": "llm:alice", "cost": 800}' http://127.0.0.1:7935/v1/reserve`:          "cmd/headgate/servecurl_test.go",
	`curl --json '{"reservation": "RESERVATION", "cost": 512}' http://127.0.0.1:7935/v1/settle`: "cmd/headgate/servecurl_test.go",
	`curl --json '{"key": "llm:alice", "cost": 60}' http://127.0.0.1:7935/v1/charge`:            "cmd/headgate/servecurl_test.go",
	`python3 -m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. quotaservice.proto`:    "cmd/headgate/servepython_test.go",

	`curl 'http://127.0.0.1:8080/?tenant=orders'`: "internal/docstest/readme_test.go",
	`go run .`: "internal/docstest/readme_test.go",
}

// shown are commands that change what is outside the repository, so that
// only their form is known here: each is a whole line, as a pattern.
var shown = []*regexp.Regexp{
	regexp.MustCompile(`^git clone https://github\.com/headgate/headgate(\.git)?$`),
	regexp.MustCompile(`^cd [\w./-]+$`),
	regexp.MustCompile(`^mkdir -p -m 700 /[\w./-]+$`),
	regexp.MustCompile(`^go mod (init [\w./-]+|tidy)$`),
	regexp.MustCompile(`^go get github\.com/headgate/headgate(@[\w.]+)?$`),
	regexp.MustCompile(`^go install github\.com/headgate/headgate/cmd/headgate(-lab)?@[\w.]+$`),
}

// commands are those that a reader of the fence would type. In a console
// fence they follow a prompt; what has none is output.
func (f fence) commands() []string {
	prompt := f.lang == "console" || f.lang == "shell-session"
	if !prompt && f.lang != "sh" && f.lang != "bash" && f.lang != "shell" {
		return nil
	}
	var found []string
	for line := range strings.Lines(strings.ReplaceAll(f.text, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if prompt {
			var typed bool
			if line, typed = strings.CutPrefix(line, "$ "); !typed {
				continue
			}
		}
		if line = uncomment(line); line == "" {
			continue
		}
		for part := range strings.SplitSeq(line, "&&") {
			found = append(found, strings.Join(strings.Fields(part), " "))
		}
	}
	return found
}

// uncomment cuts a comment that begins the line or follows a space.
func uncomment(line string) string {
	if strings.HasPrefix(line, "#") {
		return ""
	}
	line, _, _ = strings.Cut(line, " #")
	return strings.TrimSpace(line)
}

// programs are the commands of the folder cmd.
var programs = []string{"headgate", "headgate-lab"}

// checker knows what the repository can run.
type checker struct {
	tree fs.FS
	// help is what one of programs prints for `args… --help`; an error when
	// there is no such subcommand.
	help func(program string, args ...string) (string, error)
}

// command says why no one would notice if the command stopped to work.
func (c checker) command(cmd string) error {
	words := strings.Fields(cmd)
	for len(words) > 1 && strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-") {
		words = words[1:] // FOO=1 command
	}
	switch {
	case words[0] == "make":
		return c.make(words[1:])
	case slices.Contains(programs, path.Base(words[0])):
		return c.program(path.Base(words[0]), words[1:])
	case strings.HasPrefix(cmd, "go run ./cmd/") && slices.Contains(programs, path.Base(words[2])):
		return c.program(path.Base(words[2]), words[3:])
	case strings.HasPrefix(cmd, "go run ./"):
		if _, err := fs.Stat(c.tree, strings.TrimPrefix(words[2], "./")); err != nil {
			return fmt.Errorf("no such package: %w", err)
		}
		return nil
	}
	if slices.ContainsFunc(shown, func(r *regexp.Regexp) bool { return r.MatchString(cmd) }) {
		return nil
	}
	by, ok := ranBy[cmd]
	if !ok {
		return fmt.Errorf("nothing runs it: let a test or .ci/run do so, and name that in the table in internal/docstest/commands.go")
	}
	text, err := fs.ReadFile(c.tree, by)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), cmd) {
		return fmt.Errorf("%s does not run it any more", by)
	}
	return nil
}

// make checks targets and variables against the Makefile.
func (c checker) make(args []string) error {
	makefile, err := fs.ReadFile(c.tree, "Makefile")
	if err != nil {
		return err
	}
	for _, arg := range args {
		if name, _, ok := strings.Cut(arg, "="); ok {
			if !strings.Contains(string(makefile), "$("+name+")") {
				return fmt.Errorf("the Makefile reads no %s", name)
			}
			continue
		}
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(arg) + `:.*## `).Match(makefile) {
			return fmt.Errorf("make help lists no %s", arg)
		}
	}
	return nil
}

// program checks subcommands and flags against the program's own help.
func (c checker) program(name string, args []string) error {
	if i := slices.IndexFunc(args, ends); i >= 0 {
		args = args[:i]
	}
	var subs, flags []string
	for _, arg := range args {
		switch {
		case strings.HasPrefix(arg, "-"):
			name, _, _ := strings.Cut(arg, "=")
			flags = append(flags, name)
		case len(flags) == 0 && subcommand.MatchString(arg):
			subs = append(subs, arg)
		}
	}
	help, err := c.help(name, subs...)
	if err != nil && len(subs) > 1 {
		// The last word may be an argument of the command before it.
		help, err = c.help(name, subs[:len(subs)-1]...)
	}
	if err != nil {
		return err
	}
	for _, flag := range flags {
		if !regexp.MustCompile(`(?m)(^|[\s,])` + regexp.QuoteMeta(flag) + `([\s,=]|$)`).MatchString(help) {
			return fmt.Errorf("the help of %s %s knows no %s", name, strings.Join(subs, " "), flag)
		}
	}
	return nil
}

var subcommand = regexp.MustCompile(`^[a-z][a-z-]*$`)

// ends reports whether a word ends the command that a shell would run.
func ends(word string) bool {
	return slices.Contains([]string{"|", ">", ">>", "<", "&", ";", "||", "2>&1"}, word)
}
