package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// Whoever holds the locks of both resources, as a rebind wants it, is not refused because
// a proxy remembers whom a key belonged to before (I3).
func TestBothTokensBehindARebind(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config = func(c *Config) { c.Untokened = Deny }
	p, fresh := s.proxy(t), s.proxy(t)
	orders, invoices := tokenOf("orders", 2), tokenOf("invoices", 1)
	both := []guard.Token{orders, invoices}
	simple := func(method, query, body string, header map[string]string) func(*testing.T, string) {
		return func(t *testing.T, key string) {
			a := p.do(t, method, "/"+key+query, body, header, both...)
			if a.status/100 != 2 {
				t.Error(a.status, a.body)
			}
		}
	}
	for name, act := range map[string]func(*testing.T, string){
		"get": simple(http.MethodGet, "", "", nil), "head": simple(http.MethodHead, "", "", nil),
		"inside": simple(http.MethodGet, "", "", map[string]string{"Range": "bytes=2-"}),
		"tags":   simple(http.MethodGet, "?tagging", "", nil),
		"put":    simple(http.MethodPut, "", "B", nil), "put-nothing": simple(http.MethodPut, "", "", nil),
		"put-large":    simple(http.MethodPut, "", strings.Repeat("B", smallBody+1), nil),
		"put-expected": simple(http.MethodPut, "", "B", map[string]string{"Expect": "100-continue"}),
		"delete":       simple(http.MethodDelete, "", "", nil),
		"tag":          simple(http.MethodPut, "?tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>", nil),
		"untag":        simple(http.MethodDelete, "?tagging", "", nil),
		"create":       simple(http.MethodPost, "?uploads", "", nil),
		"delete-many": func(t *testing.T, key string) {
			if errs := deleted(t, p, deleteBody(false, key), both...); errs[key] != "" {
				t.Error(errs)
			}
		},
		"copy": func(t *testing.T, key string) {
			p.put(t, "from-"+key, "B", orders)
			copies(t, p, s.bucket+"/from-"+key, key, nil, both...).expect(t, "copy", http.StatusOK, "")
		},
		"copy-itself": func(t *testing.T, key string) {
			copies(t, p, s.bucket+"/"+key, key, map[string]string{"X-Amz-Metadata-Directive": "REPLACE"}, both...).expect(t, "copy", http.StatusOK, "")
		},
		"copy-part": func(t *testing.T, key string) {
			p.put(t, "from-"+key, "B", orders)
			id := create(t, fresh, key, invoices)
			a := p.do(t, http.MethodPut, "/"+key+"?partNumber=1&uploadId="+url.QueryEscape(id), "", map[string]string{"X-Amz-Copy-Source": s.bucket + "/from-" + key}, both...)
			a.expect(t, "copy part", http.StatusOK, "")
		},
		"upload": func(t *testing.T, key string) { // which another proxy has begun
			id := create(t, fresh, key, invoices)
			part := upload(t, p, key, id, 1, "B", both...)
			if _, err := complete(t, p, key, id, []minio.CompletePart{part}, both...); err != nil {
				t.Error(err)
			}
		},
		"complete": func(t *testing.T, key string) {
			id := create(t, fresh, key, invoices)
			part := upload(t, fresh, key, id, 1, "B", invoices)
			if _, err := complete(t, p, key, id, []minio.CompletePart{part}, both...); err != nil {
				t.Error(err)
			}
		},
		"abort": func(t *testing.T, key string) {
			id := create(t, fresh, key, invoices)
			if err := p.client(t, both...).AbortMultipartUpload(t.Context(), s.bucket, key, id); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := name + "." // no other's begins with it, as those do that are rebound
			p.put(t, key, "value", orders)
			store, err := s3store.New(s.server.Client(t), s3store.Config{Bucket: s.bucket})
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Rebind(t.Context(), invoices, key, "orders", nil); err != nil {
				t.Fatal(err)
			}
			act(t, key)
		})
	}
	// Who holds none of the two is refused, and for good.
	t.Run("neither", func(t *testing.T) {
		t.Parallel()
		p.put(t, "neither", "value", orders)
		for range 2 {
			p.do(t, http.MethodPut, "/neither", "B", nil, invoices, tokenOf("third", 1)).expect(t, "put", http.StatusForbidden, "FenceTokenMissing")
		}
		p.holds(t, "neither", "value", orders)
	})
}
