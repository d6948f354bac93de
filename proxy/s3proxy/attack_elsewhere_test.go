package s3proxy

import (
	"net/http"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// What is forwarded, for it is about nothing that is fenced, must not make the
// store write something that is: not by a header of AWS's or of another store's,
// nor by a configuration. Versitygw heeds none of them, so what counts is what
// came to it.
func TestAttackWritesElsewhere(t *testing.T) {
	t.Parallel()
	e, whole := newEnv(t), newEnv(t)
	link := testenv.NewS3Link(t, e.store.Endpoint())
	c := e.config()
	c.Upstream.Endpoint = "http://" + link.Endpoint()
	c.Untokened = Allow
	c.Resources = []Resource{{Prefix: e.bucket + "/orders/", Resource: "orders"}}
	c.Clients[0].Buckets = append(c.Clients[0].Buckets, whole.bucket)
	p := start(t, c)
	fenced := e.bucket + "/orders/1"
	for _, q := range []request{
		{method: http.MethodPut, target: "/" + e.bucket + "/free?renameObject", header: map[string]string{"x-amz-rename-source": fenced}},
		{method: http.MethodPut, target: "/" + e.bucket + "/free", header: map[string]string{"x-amz-rename-source": fenced}},
		{method: http.MethodPut, target: "/" + e.bucket + "/free?X-Amz-Rename-Source=" + fenced},
		{method: http.MethodPut, target: "/" + e.bucket + "/free.tar", body: "orders/1", header: map[string]string{"x-amz-meta-snowball-auto-extract": "true"}},
		{method: http.MethodPut, target: "/" + e.bucket + "/free.tar", body: "orders/1", header: map[string]string{"x-amz-snowball-extract": "true"}},
		{method: http.MethodPut, target: "/" + e.bucket + "/free.tar?x-amz-meta-snowball-auto-extract=true", body: "orders/1"},
		{method: http.MethodPost, target: "/" + e.bucket + "/free?restore", body: "<RestoreRequest><OutputLocation/></RestoreRequest>"},
		{method: http.MethodPut, target: "/" + whole.bucket + "?replication", body: "<ReplicationConfiguration/>"},
		{method: http.MethodPut, target: "/" + whole.bucket + "?logging", body: "<BucketLoggingStatus/>"},
		{method: http.MethodPut, target: "/" + whole.bucket + "?inventory&id=1", body: "<InventoryConfiguration/>"},
		{method: http.MethodPut, target: "/" + whole.bucket + "?analytics&id=1", body: "<AnalyticsConfiguration/>"},
		{method: http.MethodPost, target: "/" + whole.bucket, body: "form"},
	} {
		before := len(link.Requests())
		if res, body := send(t, q.sign(t, p.addr, appKey, appSecret)); res.StatusCode != http.StatusNotImplemented {
			t.Errorf("%s %s %v: %d %.200s", q.method, q.target, q.header, res.StatusCode, body)
		}
		if came := link.Requests()[before:]; len(came) > 0 {
			t.Errorf("%s %s %v: the store was asked %s", q.method, q.target, q.header, came[0].Op)
		}
	}
	// These are dropped: proxies on the way put their like into any request.
	for _, name := range []string{"X-Minio-Force-Delete", "X-Goog-Copy-Source", "X-Oss-Copy-Source", "X-Forwarded-Host"} {
		p.do(t, http.MethodDelete, "/"+e.bucket+"/orders", "", map[string]string{name: "true"})
		all := link.Requests()
		if came := all[len(all)-1]; came.Header.Get(name) != "" {
			t.Errorf("%s came to the store with %s", came.Op, name)
		}
	}
}
