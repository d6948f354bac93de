package serveconfig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v4"
)

// Read reads a file. Lookup looks a variable up in the environment. What is
// wrong with the file is Problems, all there are.
func Read(path string, lookup func(string) (string, bool)) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return Parse(path, text, lookup)
}

// Parse is Read of a file whose text is at hand.
func Parse(path string, text []byte, lookup func(string) (string, bool)) (*Config, error) {
	d := &decoder{
		config: &Config{file: path, where: map[string]string{}},
		expand: func(text string) (string, error) { return expand(text, lookup) },
		place:  func(n *yaml.Node) string { return fmt.Sprintf("%s:%d:%d", path, n.Line, n.Column) },
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := documents.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, Problems{syntax(path, err)}
	}
	if err := documents.Decode(&second); err == nil {
		d.fail(&second, "", "a second document begins here; a config is one")
	} else if !errors.Is(err, io.EOF) {
		return nil, Problems{syntax(path, err)}
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
	if len(document.Content) > 0 {
		root = document.Content[0]
	}
	return d.run(root)
}

// syntax is the problem of a file that is no YAML.
func syntax(path string, err error) *Problem {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return &Problem{Where: path, Text: err.Error()}
	}
	where := path
	if load.Mark.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", path, load.Mark.Line, max(1, load.Mark.Column))
	}
	return &Problem{Where: where, Text: "this is not YAML: " + load.Message}
}

// Value is a value of the command line.
type Value struct {
	// Flag is what gave it, with its dashes.
	Flag string
	// Key is the path of the key that it is for, as in postgres, listen; of lists
	// there is one element.
	Key []string
	// Text is what a file would have there.
	Text string
}

// FromValues makes a configuration of values as if they stood in a file, but
// that nothing is expanded. Their keys must be there.
func FromValues(values []Value) (*Config, error) {
	flags := map[*yaml.Node]string{}
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, value := range values {
		leaf := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value.Text}
		flags[leaf] = value.Flag
		plant(root, value.Key, leaf)
	}
	d := &decoder{
		config: &Config{where: map[string]string{}},
		expand: func(text string) (string, error) { return text, nil },
		place:  func(n *yaml.Node) string { return flags[n] },
		single: true,
	}
	return d.run(root)
}

// plant puts leaf under its key into a mapping.
func plant(mapping *yaml.Node, key []string, leaf *yaml.Node) {
	if len(key) > 1 {
		i := slices.IndexFunc(mapping.Content, func(n *yaml.Node) bool { return n.Value == key[0] })
		if i >= 0 {
			plant(mapping.Content[i+1], key[1:], leaf)
			return
		}
		inner := &yaml.Node{Kind: yaml.MappingNode}
		plant(inner, key[1:], leaf)
		leaf = inner
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key[0]}, leaf)
}

// run decodes and checks.
func (d *decoder) run(root *yaml.Node) (*Config, error) {
	d.decode(root, reflect.ValueOf(d.config).Elem(), "", "")
	d.check()
	if len(d.problems) > 0 {
		slices.SortStableFunc(d.problems, func(a, b *Problem) int {
			return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
		})
		return nil, d.problems
	}
	return d.config, nil
}
