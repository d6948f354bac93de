package gateway

import (
	"maps"
	"net/http"
	"slices"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

func (x *exchange) getTagging() error {
	var stored map[string]string
	err := x.read(x.target.Key, func(token guard.Token) (err error) {
		stored, err = x.store.Tags(x.ctx(), token, x.target.Key)
		return err
	})
	if err != nil {
		return err
	}
	var r s3xml.Tagging
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		r.Tags = append(r.Tags, s3xml.Tag{Key: key, Value: stored[key]})
	}
	return x.xml(http.StatusOK, r)
}

func (x *exchange) putTagging() error {
	p, err := x.payload()
	if err != nil {
		return err
	}
	list, err := readXML(p, s3xml.ReadTagging)
	if err != nil {
		return err
	}
	wanted, err := tagMap(list)
	if err != nil {
		return err
	}
	if err := x.setTags(wanted); err != nil {
		return err
	}
	return x.reply(http.StatusOK)
}

// tagMap sees that an object may have these tags.
func tagMap(list []s3xml.Tag) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, t := range list {
		if _, twice := m[t.Key]; twice {
			return nil, refusal.New(refusal.InvalidTag, "Cannot provide multiple Tags with the same key")
		}
		m[t.Key] = t.Value
	}
	return m, header.CheckTags(m)
}

func (x *exchange) deleteTagging() error {
	if err := x.setTags(nil); err != nil {
		return err
	}
	return x.reply(http.StatusNoContent)
}

// setTags writes the object again, with these tags.
func (x *exchange) setTags(wanted map[string]string) error {
	return x.write(x.target.Key, 0, func(token guard.Token) error { return x.setTagsUnder(token, wanted) })
}

func (x *exchange) setTagsUnder(token guard.Token, wanted map[string]string) error {
	// Unseen, or this would be what makes it overwrite what the client has not seen (I9).
	info, err := x.store.Stat(x.ctx(), token, x.target.Key, s3store.GetOptions{Unseen: true})
	if err != nil {
		return guard.WithOutcome(err, guard.NotApplied)
	}
	if info.Size > maxWhole {
		return refusal.New(refusal.NotImplemented, "Tags of an object of more than %d bytes cannot be changed through the proxy: it writes the object again.", int64(maxWhole))
	}
	_, err = x.store.SetTags(x.ctx(), token, x.target.Key, wanted)
	return err
}
