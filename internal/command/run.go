// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/internal/buildinfo"
	"github.com/headgate/headgate/internal/spelling"
)

// Root makes root the root of a program's commands, and adds all and `version`
// to it. Alone, it prints its help.
func Root(root *cobra.Command, all ...*cobra.Command) *cobra.Command {
	root.Args = NoSuch
	root.SilenceErrors, root.SilenceUsage = true, true
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetFlagErrorFunc(hint)
	root.AddCommand(all...)
	root.AddCommand(newVersion(root.Name()))
	root.Version = version(root.Name(), buildinfo.Read())
	root.SetVersionTemplate("{{.Version}}\n")
	sayWhatIsTaken(root)
	return root
}

// sayWhatIsTaken has the commands below cmd say which arguments and flags they take when they
// get others.
func sayWhatIsTaken(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if check := c.Args; check != nil && !c.HasSubCommands() {
			c.Args = func(c *cobra.Command, args []string) error {
				if check(c, args) == nil {
					return missing(c)
				}
				return wrongArguments(c, args)
			}
		}
		sayWhatIsTaken(c)
	}
}

// wrongArguments is the error of a command that does not take args.
func wrongArguments(c *cobra.Command, args []string) error {
	given := "there is none"
	if len(args) > 0 {
		given = fmt.Sprintf("there is %.100q", strings.Join(args, " "))
	}
	_, takes, _ := strings.Cut(c.Use, " ")
	if takes == "" {
		takes = "no arguments"
	}
	return fmt.Errorf("%s takes %s, and %s; `%s --help` has examples", c.CommandPath(), takes, given, c.CommandPath())
}

// missing says which flag is not there that c needs.
func missing(c *cobra.Command) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if err == nil && f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			value, usage := pflag.UnquoteUsage(f)
			err = fmt.Errorf("%s needs --%s %s: %s; `%s --help` has examples", c.CommandPath(), f.Name, strings.ToUpper(value), usage, c.CommandPath())
		}
	})
	return err
}

// NoSuch refuses all arguments of a command that only has commands below it, and
// says which of these may have been meant.
func NoSuch(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	like := spelling.Nearest(args[0], names)
	if like != "" {
		like = "did you mean " + like + "? "
	}
	return fmt.Errorf("there is no command %.100q; %s`%s --help` lists the commands", cmd.CommandPath()+" "+args[0], like, cmd.CommandPath())
}

// PathOf is how errors name cmd: by its path below the program, as in "limits set".
func PathOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// Run runs root with the program's arguments until it ends or the process is
// interrupted, and returns the exit code. A second interrupt ends the process at
// once.
func Run(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, named(root.Name(), shown(err)))
		return Code(err)
	}
	return 0
}

// named is text after the program's name, once: the library's errors have the same name.
func named(program, text string) string {
	if strings.HasPrefix(text, program+": ") {
		return text
	}
	return program + ": " + text
}

// coded is an error with an exit code of its own.
type coded struct {
	error
	code int
}

// Unwrap is for errors.Is and errors.As.
func (c coded) Unwrap() error { return c.error }

// WithCode is err, with which Run returns code.
func WithCode(err error, code int) error { return coded{err, code} }

// Code is the exit code of a program that ends with err.
func Code(err error) int {
	if c, ok := errors.AsType[coded](err); ok {
		return c.code
	}
	return 1
}

// pointer is a line with a caret, below the line of a file that has a mistake.
var pointer = regexp.MustCompile(`(?m)^ *\| *\^$`)

// shown is err as Run prints it: in one line, unless it shows lines of a file.
func shown(err error) string {
	if text := err.Error(); pointer.MatchString(text) {
		return text
	}
	return OneLine(err)
}

// OneLine joins the lines of an error of many parts.
func OneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}

// hint says what to do about a flag that is wrong.
func hint(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && cmd.Args != nil {
		if wrong := cmd.Args(cmd, args); wrong != nil {
			return wrong // a command that does not exist, with flags that it would have
		}
	}
	help := fmt.Sprintf("`%s --help` lists the flags", cmd.CommandPath())
	var unknown interface{ GetSpecifiedName() string }
	if errors.As(err, &unknown) && strings.HasPrefix(err.Error(), "unknown") {
		name := unknown.GetSpecifiedName()
		like := spelling.Nearest(name, flags(cmd))
		_, takes, _ := strings.Cut(cmd.Use, " ")
		switch argument := strings.ToUpper(name); {
		case slices.Contains(strings.FieldsFunc(takes, func(r rune) bool { return !unicode.IsLetter(r) }), argument):
			takes = argument
		case like != "":
			return fmt.Errorf("%w; did you mean --%s? %s", err, like, help)
		case strings.Contains(takes, "--") || has(cmd.Root(), name): // it is meant as a flag
			takes = ""
		}
		if takes != "" {
			return fmt.Errorf("%w; %s takes %s by itself, without a flag; `%s --help` has examples and the flags", err, cmd.CommandPath(), takes, cmd.CommandPath())
		}
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if want := Wanted(invalid.GetFlag()); want != "" {
			return fmt.Errorf("--%s: %q: %s; %s", invalid.GetFlag().Name, invalid.GetValue(), want, help)
		}
	}
	return fmt.Errorf("%w; %s", err, help)
}

// has reports whether cmd, or a command below it, has a flag of that name.
func has(cmd *cobra.Command, name string) bool {
	return cmd.Flags().Lookup(name) != nil || slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return has(c, name) })
}

// Wanted says what to write for a flag that cannot have the value which was written; empty
// if the flag's own error says it.
func Wanted(flag *pflag.Flag) string {
	switch flag.Value.Type() {
	case "int", "int64", "uint", "uint64":
		return "write a whole number, as in 100"
	case "float64":
		return "write a number, as in 0.5"
	case "bool":
		return "write true or false"
	case "duration":
		return "write a time, as in 5s"
	}
	return ""
}

// flags are the names of cmd's.
func flags(cmd *cobra.Command) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
		names = append(names, m[1])
	}
	return names
}
