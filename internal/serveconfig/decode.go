package serveconfig

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// decoder fills a Config from nodes of YAML. It goes on after a mistake.
type decoder struct {
	config   *Config
	expand   func(text string) (string, error)
	place    func(n *yaml.Node) string
	single   bool // lists have one element, which stands there without a list
	problems Problems
	unread   []string // paths of what could not be read
}

func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.unread = append(d.unread, path)
	p := &Problem{Where: d.place(n), Key: path, Text: fmt.Sprintf(format, args...), line: n.Line, column: n.Column}
	if d.single && p.Where != "" {
		p.Key = "" // the flag says it
	}
	d.problems = append(d.problems, p)
}

// decode reads n, which stands under path, into v. Tag is that of v's field.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if where := d.place(n); path != "" && where != "" {
		d.config.where[path] = where
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.fail(n, path, "tags like %s have no meaning here", n.Tag)
		return
	}
	switch {
	case v.Kind() == reflect.Pointer:
		if !isNull(n) {
			v.Set(reflect.New(v.Type().Elem()))
			fillDefaults(v.Elem())
			d.decode(n, v.Elem(), path, tag)
		}
	case v.Kind() == reflect.Struct:
		d.decodeMapping(n, v, path)
	case v.Kind() == reflect.Slice:
		d.decodeSequence(n, v, path)
	default:
		d.decodeScalar(n, v, path, tag)
	}
}

func (d *decoder) decodeMapping(n *yaml.Node, v reflect.Value, path string) {
	if path == "" {
		fillDefaults(v)
	}
	known, given := fields(v.Type()), map[string]bool{}
	if n.Kind != yaml.MappingNode && !isNull(n) {
		d.fail(n, path, "must have keys under it: %s", strings.Join(names(v.Type()), ", "))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := key.Value
		field, ok := known[name]
		switch {
		case key.Tag == "!!merge":
			d.fail(key, path, "keys cannot be merged with <<: write them out, or let an alias (*name) stand for a whole value")
		case key.Kind != yaml.ScalarNode || !ok:
			d.fail(key, join(path, name), "is no key; here there are %s", strings.Join(names(v.Type()), ", "))
		case given[name]:
			d.fail(key, join(path, name), "is there twice")
		default:
			given[name] = true
			d.decode(value, v.FieldByIndex(field.Index), join(path, name), field.Tag)
		}
	}
	for _, name := range names(v.Type()) {
		if known[name].Tag.Get("need") != "" && !given[name] {
			d.fail(n, join(path, name), "is missing")
		}
	}
}

func (d *decoder) decodeSequence(n *yaml.Node, v reflect.Value, path string) {
	if isNull(n) {
		return
	}
	if d.single {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}}
	}
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "must be a list, each element with a dash in front")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, element := range n.Content {
		fillDefaults(v.Index(i))
		d.decode(element, v.Index(i), fmt.Sprintf("%s[%d]", path, i), "")
	}
}

func (d *decoder) decodeScalar(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	switch {
	case n.Kind != yaml.ScalarNode:
		d.fail(n, path, "must be one value, not a list or keys (a value that begins with { or [ stands in quotes)")
		return
	case isNull(n):
		d.fail(n, path, "has no value")
		return
	}
	text, err := d.expand(n.Value)
	_, secret := v.Interface().(Secret)
	switch {
	case err == nil:
	case secret && !errors.As(err, new(unsetError)):
		d.fail(n, path, "has a ${ in it that is no variable ($${ stands for ${)") // not with what is around it
		return
	default:
		d.fail(n, path, "%v", err)
		return
	}
	if text == "" && tag.Get("need") != "" {
		d.fail(n, path, "is empty")
		return
	}
	if secret && text == strings.ReplaceAll(n.Value, "$${", "${") { // no variable
		d.config.plain = append(d.config.plain, path)
	}
	if err := set(v, tag, text); err != nil {
		if secret {
			d.fail(n, path, "%v", err)
			return
		}
		// Not what a variable holds: that may be a secret in the wrong place.
		d.fail(n, path, "%q %v", n.Value, err)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// fillDefaults sets what stands in the tags default of a struct.
func fillDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for _, name := range names(v.Type()) {
		field := fields(v.Type())[name]
		at := v.FieldByIndex(field.Index)
		if text, ok := field.Tag.Lookup("default"); ok {
			if err := set(at, field.Tag, text); err != nil {
				panic(fmt.Sprintf("serveconfig: default of %s: %q %v", name, text, err))
			}
			continue
		}
		fillDefaults(at)
	}
}

// structs has what reflection found, by type.
type structs struct {
	names  []string // in the order of the fields
	fields map[string]reflect.StructField
}

func names(t reflect.Type) []string                        { return structOf(t).names }
func fields(t reflect.Type) map[string]reflect.StructField { return structOf(t).fields }

func structOf(t reflect.Type) structs {
	s := structs{fields: map[string]reflect.StructField{}}
	for _, field := range reflect.VisibleFields(t) {
		if name := field.Tag.Get("yaml"); name != "" {
			s.names = append(s.names, name)
			s.fields[name] = field
		}
	}
	return s
}

// Keys are the paths of all keys with a value, in the order of the fields,
// elements of lists as in postgres[].listen, with their defaults. A list of plain
// values is one key.
func Keys() []Key { return keys(reflect.TypeFor[Config](), "", nil) }

// Key is one key that a file can have.
type Key struct {
	// Path is the key's path.
	Path string
	// Default is what stands there if a file says nothing, "" if there is none.
	Default string
}

func keys(t reflect.Type, path string, into []Key) []Key {
	for _, name := range names(t) {
		field, at := fields(t)[name], join(path, name)
		inner := field.Type
		if inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct {
			inner, at = inner.Elem(), at+"[]"
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			into = keys(inner, at, into)
			continue
		}
		into = append(into, Key{at, field.Tag.Get("default")})
	}
	return slices.Clip(into)
}
