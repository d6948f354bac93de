package s3xml

import (
	"io"
	"strconv"
	"strings"
)

const (
	// MaxDelete is how many objects one request may delete.
	MaxDelete = 1000
	// MaxParts is how many parts an upload may have, and the highest number of
	// one.
	MaxParts = 10000
	// maxTags bounds what is read; how many an object may have is for others
	// to say.
	maxTags = 100
)

// Part is a part of an upload that is to be completed.
type Part struct {
	// Number is 1 to MaxParts.
	Number int
	// ETag is without quotes.
	ETag string
	// Checksums are those that the client names, by the names of their
	// elements: ChecksumCRC32 and so on.
	Checksums map[string]string
}

// ReadComplete reads a CompleteMultipartUpload: its parts, in the order in
// which they were named; at least one. Elements that it does not know are
// passed over.
func ReadComplete(r io.Reader) ([]Part, error) {
	var parts []Part
	var p Part
	err := document(r, "CompleteMultipartUpload", func(path string) error {
		if path == "Part" {
			p = Part{}
		}
		return nil
	}, func(path, text string) error {
		switch name, inPart := strings.CutPrefix(path, "Part/"); {
		case path == "Part":
			if p.Number == 0 || p.ETag == "" {
				return malformed("a part without number or ETag")
			}
			if len(parts) == MaxParts {
				return malformed("more than %d parts", MaxParts)
			}
			parts = append(parts, p)
		case !inPart:
		case name == "PartNumber":
			if p.Number != 0 {
				return malformed("two numbers of a part")
			}
			n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
			if err != nil || n < 1 || n > MaxParts {
				return malformed("part number %.20q", text)
			}
			p.Number = int(n)
		case name == "ETag":
			p.ETag = unquote(text)
		case strings.HasPrefix(name, "Checksum"):
			if p.Checksums == nil {
				p.Checksums = map[string]string{}
			}
			p.Checksums[name] = strings.TrimSpace(text)
		}
		return nil
	})
	if err == nil && len(parts) == 0 {
		err = malformed("no parts")
	}
	return parts, err
}

// Delete is a request to delete several objects.
type Delete struct {
	// Quiet: only what could not be deleted is told.
	Quiet   bool
	Objects []DeleteObject
}

// DeleteObject is one object that is to be deleted.
type DeleteObject struct {
	Key string
	// VersionID is the version, "" for none.
	VersionID string
	// ETag is a condition, without quotes; "" for none.
	ETag string
	// OtherCondition: it has conditions beside it, the size or the time of the
	// last change, which only directory buckets know.
	OtherCondition bool
}

// appendTo writes the request as another server is to read it. Other conditions
// are not in it.
func (d Delete) appendTo(b builder) builder {
	b = b.root("Delete")
	for _, o := range d.Objects {
		b = b.open("Object").text("Key", o.Key).some("VersionId", o.VersionID)
		if o.ETag != "" {
			b = b.etag(o.ETag)
		}
		b = b.close("Object")
	}
	return b.flag("Quiet", d.Quiet).close("Delete")
}

// ReadDelete reads a Delete: 1 to MaxDelete objects. An element of an object
// that it does not know is malformed, for it may be a condition.
func ReadDelete(r io.Reader) (Delete, error) {
	var d Delete
	var o DeleteObject
	var known bool
	err := document(r, "Delete", func(path string) error {
		if path == "Object" {
			o, known = DeleteObject{}, false
		}
		return nil
	}, func(path, text string) error {
		switch path {
		case "Quiet":
			quiet, err := strconv.ParseBool(strings.TrimSpace(text))
			if err != nil {
				return malformed("quiet %.20q", text)
			}
			d.Quiet = quiet
		case "Object/Key":
			if known {
				return malformed("two keys of an object")
			}
			o.Key, known = text, true
		case "Object/VersionId":
			o.VersionID = strings.TrimSpace(text)
		case "Object/ETag":
			if o.ETag != "" {
				return malformed("two ETags of an object")
			}
			o.ETag = unquote(text)
			if o.ETag == "" { // none was meant, but to delete whatever is there is not safe
				return malformed("an empty ETag")
			}
		case "Object/Size", "Object/LastModifiedTime":
			o.OtherCondition = true
		case "Object":
			if !known || o.Key == "" {
				return malformed("an object without a key")
			}
			if len(d.Objects) == MaxDelete {
				return malformed("more than %d objects", MaxDelete)
			}
			d.Objects = append(d.Objects, o)
		default:
			if strings.HasPrefix(path, "Object/") {
				return malformed("unknown element %.60q", path)
			}
		}
		return nil
	})
	if err == nil && len(d.Objects) == 0 {
		err = malformed("no objects")
	}
	return d, err
}

// Tag is one tag of an object.
type Tag struct{ Key, Value string }

// ReadTagging reads a Tagging: its tags in the order in which they were named,
// perhaps none. Whether an object may have them is not looked at.
func ReadTagging(r io.Reader) ([]Tag, error) {
	var tags []Tag
	var t Tag
	var set, key, value bool
	err := document(r, "Tagging", func(path string) error {
		switch path {
		case "TagSet":
			set = true
		case "TagSet/Tag":
			t, key, value = Tag{}, false, false
		}
		return nil
	}, func(path, text string) error {
		switch path {
		case "TagSet/Tag/Key":
			t.Key, key = text, true
		case "TagSet/Tag/Value":
			t.Value, value = text, true
		case "TagSet/Tag":
			if !key || !value {
				return malformed("a tag without key or value")
			}
			if len(tags) == maxTags {
				return malformed("more than %d tags", maxTags)
			}
			tags = append(tags, t)
		}
		return nil
	})
	if err == nil && !set {
		err = malformed("no TagSet")
	}
	return tags, err
}

// unquote removes the quotes around an ETag.
func unquote(text string) string { return strings.Trim(strings.TrimSpace(text), `"`) }
