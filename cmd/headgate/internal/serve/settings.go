// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/internal/spelling"
)

// maxSettings bounds the file of settings, in bytes.
const maxSettings = 1 << 20

// settings are the flags of a command that may also be in a file of YAML, and in the
// environment. The flags are the only list of them: --tls-cert is tls_cert in the file,
// and HEADGATE_TLS_CERT in the environment.
type settings struct {
	flags *pflag.FlagSet
	file  string            // empty: none
	from  map[string]string // the source of each flag's value, by its name; none: its default

	broken map[string]bool // flags whose value cannot be used, by name
	unread bool            // the file cannot be read at all
}

// notSettings are the flags that only make sense on a command line.
var notSettings = map[string]bool{"config": true, "print-config": true, "check": true, "help": true}

// fieldOf returns the name that a flag has in the file.
func fieldOf(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// variablePrefix begins the names of the variables of all settings.
const variablePrefix = "HEADGATE_"

// variableOf returns the name that a flag has in the environment.
func variableOf(flag string) string { return variablePrefix + strings.ToUpper(fieldOf(flag)) }

// each calls f for each setting, by its name.
func (s *settings) each(f func(flag *pflag.Flag)) {
	s.flags.VisitAll(func(flag *pflag.Flag) {
		if !notSettings[flag.Name] {
			f(flag)
		}
	})
}

// load sets the flags that the command line does not, from the environment, or else from
// the file. The error has a line for each mistake.
func (s *settings) load() error {
	s.from, s.broken = make(map[string]string), make(map[string]bool)
	s.each(func(flag *pflag.Flag) {
		if flag.Changed {
			s.from[flag.Name] = "the command line"
		}
	})
	var errs []error
	s.each(func(flag *pflag.Flag) {
		name := variableOf(flag.Name)
		text, ok := os.LookupEnv(name)
		if !ok || s.from[flag.Name] != "" {
			return
		}
		s.from[flag.Name] = name
		if err := put(flag, text); err != nil {
			s.broken[flag.Name] = true
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	})
	if s.file != "" {
		errs = append(errs, s.read()...)
	}
	return errors.Join(errs...)
}

// read sets the flags that the file has and that are not set yet.
func (s *settings) read() (errs []error) {
	defer func() {
		if r := recover(); r != nil { // a defect of the YAML library
			s.unread = true
			errs = append(errs, fmt.Errorf("--config: %s is not YAML that can be read (%v): compare it with the examples in docs/config.md", s.file, r))
		}
	}()
	text, err := filewatch.Read(s.file, maxSettings)
	switch {
	case err != nil:
		err = fmt.Errorf("--config: %w", err)
	case len(text) > maxSettings:
		err = fmt.Errorf("--config: %s has more than %d bytes", s.file, maxSettings)
	}
	var parsed *ast.File
	if err == nil {
		if parsed, err = parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey()); err != nil {
			err = s.unreadable(err)
		}
	}
	if err != nil {
		s.unread = true
		return []error{err}
	}
	for i, document := range parsed.Docs {
		if i > 0 {
			return append(errs, fmt.Errorf("%s: there is more than one document: write one", s.file))
		}
		errs = append(errs, s.fields(document.Body)...)
	}
	return errs
}

// unreadable says in one line why the file cannot be parsed as YAML.
func (s *settings) unreadable(err error) error {
	if wrong, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		return fmt.Errorf("%s:%d: %s", s.file, wrong.GetToken().Position.Line, wrong.GetMessage())
	}
	return fmt.Errorf("%s: %w", s.file, err)
}

// fields sets the flags that are fields of body, which is the only mapping of the file.
func (s *settings) fields(body ast.Node) (errs []error) {
	var fields []*ast.MappingValueNode
	switch n := body.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
	case *ast.MappingNode:
		fields = n.Values
	case *ast.MappingValueNode:
		fields = []*ast.MappingValueNode{n}
	default:
		return []error{fmt.Errorf("%s: write fields, as in edge: 127.0.0.1:7934", s.file)}
	}
	var names []string
	s.each(func(flag *pflag.Flag) { names = append(names, fieldOf(flag.Name)) })
	lines := make(map[string]int) // of the fields so far
	for _, field := range fields {
		name, line := field.Key.GetToken().Value, field.Key.GetToken().Position.Line
		first := lines[name]
		if first == 0 {
			lines[name] = line
		}
		flag := s.flags.Lookup(strings.ReplaceAll(name, "_", "-"))
		var err error
		switch {
		case flag == nil || notSettings[flag.Name] || fieldOf(flag.Name) != name:
			err = errors.New("there is no such field: headgate serve --print-config prints all")
			if near := spelling.Nearest(name, names); near != "" {
				err = fmt.Errorf("there is no such field: did you mean %s?", near)
			}
		case first > 0:
			err = fmt.Errorf("line %d has this field already: write it once", first)
		case s.from[flag.Name] != "":
			err = probe(flag, field.Value)
		default:
			s.from[flag.Name] = fmt.Sprintf("%s:%d", s.file, line)
			err = set(flag, field.Value)
			s.broken[flag.Name] = err != nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %w", s.file, line, name, err))
		}
	}
	return errs
}

// set gives flag a value of the file.
func set(flag *pflag.Flag, value ast.Node) error {
	switch value.(type) {
	case *ast.SequenceNode:
		list, ok := flag.Value.(pflag.SliceValue)
		switch {
		case !ok && flag.Name == "limits":
			return errors.New("write the path of a file of limits, and no list; if this is that file, name it with --limits")
		case !ok:
			return errors.New("write one value, and no list")
		}
		var all []string
		if err := yaml.NodeToValue(value, &all); err != nil {
			return errors.New("write a list of texts")
		}
		return list.Replace(all)
	case *ast.MappingNode, *ast.MappingValueNode, *ast.NullNode, *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.LiteralNode:
		return errors.New("write a value, or a list of values")
	}
	return put(flag, value.GetToken().Value)
}

// probe returns the error that set would return, and leaves flag as it is.
func probe(flag *pflag.Flag, value ast.Node) error {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		before := list.GetSlice()
		defer func() { _ = list.Replace(before) }()
	} else {
		before := flag.Value.String()
		defer func() { _ = flag.Value.Set(before) }()
	}
	return set(flag, value)
}

// put gives flag the value that text stands for.
func put(flag *pflag.Flag, text string) error {
	err := flag.Value.Set(text)
	if err == nil {
		return nil
	}
	if want := command.Wanted(flag); want != "" {
		return fmt.Errorf("%q: %s", text, want)
	}
	return fmt.Errorf("%q: %w", text, err)
}

// locate says of each mistake in err which settings it is about, and where they were set.
// It leaves out those that follow from a value that cannot be used.
func (s *settings) locate(err error) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, err := range several.Unwrap() {
			errs = append(errs, s.locate(err))
		}
		return errors.Join(errs...)
	}
	m, ok := errors.AsType[*daemon.Mistake](err)
	if !ok {
		return err
	}
	var about []string
	for _, name := range m.Settings {
		if s.broken[name] {
			return nil
		}
		if from := s.from[name]; from != "" {
			about = append(about, fmt.Sprintf("--%s (from %s)", name, from))
		}
	}
	if len(about) == 0 {
		about = []string{"--" + m.Settings[0]}
	}
	return fmt.Errorf("%s: %w", strings.Join(about, ", "), err)
}

// otherVariables are the variables of the environment that a daemon reads and that are no settings.
var otherVariables = []string{redisPassword, keySalt}

// suspects warns of the variables of the environment whose names are almost those of settings.
func (s *settings) suspects(environment []string) (warnings []string) {
	names := slices.Clone(otherVariables)
	s.each(func(flag *pflag.Flag) { names = append(names, variableOf(flag.Name)) })
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(names, name) {
			continue
		}
		// A name that begins with another letter is likely another program's.
		if near := spelling.Nearest(name, names); near != "" && near[:len(variablePrefix)+1] == name[:min(len(variablePrefix)+1, len(name))] {
			warnings = append(warnings, fmt.Sprintf("%s is no setting: did you mean %s?", name, near))
		}
	}
	return warnings
}

// print writes all settings as a file has them, with where each comes from.
func (s *settings) print(w io.Writer) (err error) {
	s.each(func(flag *pflag.Flag) {
		if err != nil {
			return
		}
		var value any = flag.Value.String()
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			value = list.GetSlice()
		}
		text, failed := yaml.MarshalWithOptions(value, yaml.Flow(true), yaml.JSON())
		if err = failed; err != nil {
			return
		}
		from := "default"
		if at := s.from[flag.Name]; at != "" {
			from = "from " + at
		}
		_, err = fmt.Fprintf(w, "%s: %s  # %s\n", fieldOf(flag.Name), strings.TrimSpace(string(text)), from)
	})
	return err
}
