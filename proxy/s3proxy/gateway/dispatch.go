package gateway

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/address"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/wire"
)

// How a request is served, and what a handler is.
//
//	Serve ─ serve ─ authenticate ─ admit ─┬─ forward          (nothing is fenced there)
//	                                      └─ handlers[name]   (method of *exchange)
//
// An exchange is one request with all that is known of it: who sent it (client,
// signed), what it asks for (target: Name, Bucket, Key, Query), its tokens, and
// the store of its bucket. When a handler runs, the signature was right, the
// client may use the bucket and may do this, the key is not the fence's own, no
// header or parameter asks for what is not done, and a write has a token,
// though not yet one that is known to be current. Nothing of the body was read.
//
// A handler is a method func() error. It asks exchange for
//
//	write(key, size, act)  act under the token to write key with. If a body of that
//	                       size (0: none) is to come it is refused here if it is stale.
//	read(key, act)         act under the token to read key with; the zero Token if
//	                       there is none and none is needed.
//	writeToken, readToken  the token alone. For a listing key is the prefix.
//	payload()              the body: decoded, with a size. Its last byte comes
//	                       when all of it was verified: read a document to its end.
//	header.PutOptions(h)   what the headers say of an object that is written
//	reply(status)          an answer without a body; xml and stream: one with
//	etag.Shown, etag.Named the ETags of framed objects as clients see and name them
//
// and either has answered and returns nil, or returns an error and has not: then
// refuse, and nothing else, makes the answer of it (package refusal; errors of
// guard, s3store, sigv4, s3xml and minio go in as they are, refusal.New makes
// others). An error after the answer has begun breaks the connection, so that
// the client does not take what it has for the whole.
//
// Handlers of operations on several keys call address.Key, x.fenced and
// write for each key, and copies ask x.source. Where nothing is fenced, requests do not come here,
// but a fenced bucket may have keys that are not (Untokened Allow, x.fenced is
// false): x.g.core reaches them.

// Serve answers a request.
func (g *Gateway) Serve(w *http1.Response, r *http.Request) {
	g.serving.RLock()
	defer g.left()
	g.metrics.InFlight.Inc()
	defer g.metrics.InFlight.Dec()
	x := g.begin(w, r)
	defer x.end()
	if err := x.serve(); err != nil {
		x.refuse(err)
	}
}

// handlers are the operations that are served. Those that are only in package
// operation's table are answered 501, or forwarded where nothing is fenced.
func handlers() map[operation.Name]func(*exchange) error {
	return map[operation.Name]func(*exchange) error{
		operation.ListBuckets:             (*exchange).listBuckets,
		operation.HeadBucket:              (*exchange).headBucket,
		operation.CreateBucket:            (*exchange).createBucket,
		operation.GetBucketLocation:       (*exchange).getBucketLocation,
		operation.GetBucketVersioning:     (*exchange).getBucketVersioning,
		operation.ListObjects:             (*exchange).listObjects,
		operation.ListObjectsV2:           (*exchange).listObjectsV2,
		operation.ListMultipartUploads:    (*exchange).listUploads,
		operation.DeleteObjects:           (*exchange).deleteObjects,
		operation.GetObject:               (*exchange).getObject,
		operation.HeadObject:              (*exchange).headObject,
		operation.PutObject:               (*exchange).putObject,
		operation.CopyObject:              (*exchange).copyObject,
		operation.DeleteObject:            (*exchange).deleteObject,
		operation.CreateMultipartUpload:   (*exchange).createUpload,
		operation.UploadPart:              (*exchange).uploadPart,
		operation.UploadPartCopy:          (*exchange).copyPart,
		operation.ListParts:               (*exchange).listParts,
		operation.CompleteMultipartUpload: (*exchange).completeUpload,
		operation.AbortMultipartUpload:    (*exchange).abortUpload,
		operation.GetObjectTagging:        (*exchange).getTagging,
		operation.PutObjectTagging:        (*exchange).putTagging,
		operation.DeleteObjectTagging:     (*exchange).deleteTagging,
	}
}

func (x *exchange) serve() error {
	if err := x.authenticate(); err != nil {
		return err
	}
	fenced, err := x.admit()
	if err != nil {
		return err
	}
	if what, elsewhere := x.target.Elsewhere(x.r.Header); elsewhere {
		return refusal.New(refusal.NotImplemented, "%s is not implemented by the proxy: the store might write keys that are fenced.", what)
	}
	if !fenced {
		return x.forward()
	}
	if name, foreign := x.target.Foreign(x.r.Header); foreign {
		return refusal.New(refusal.NotImplemented, "The header %s is not implemented by the proxy.", name)
	}
	if x.target.Query.Has("versionId") {
		return refusal.New(refusal.NotImplemented, "Versions are not implemented by the proxy.")
	}
	handle := x.g.handlers[x.target.Name]
	if handle == nil {
		return refusal.New(refusal.NotImplemented, "%s is not implemented by the proxy.", x.target.Name)
	}
	if x.target.Bucket != "" {
		if x.store, err = x.g.stores.get(x.target.Bucket); err != nil {
			return err
		}
	}
	return x.once(handle)
}

// unknown refuses what the table does not have.
func (x *exchange) unknown() error {
	return refusal.New(refusal.NotImplemented, "%s is not implemented by the proxy.", x.g.parser.Unknown(x.r, &x.target))
}

// authenticate finds out what is asked for, and who asks.
func (x *exchange) authenticate() error {
	target, wrong := x.g.parser.Parse(x.r)
	x.target = target
	if target.Name == operation.PostObject { // signed in its body, which is not read to refuse it
		return refusal.New(refusal.NotImplemented, "Uploads by HTML form are not implemented by the proxy.")
	}
	signed, err := x.g.verifier.Verify(x.r)
	if err != nil {
		return err
	}
	x.signed, x.client = signed, x.g.clients[signed.AccessKey]
	if wrong != nil {
		return refusal.New(refusal.InvalidURI, "Couldn't parse the specified URI: %s.", wrong)
	}
	return x.promote()
}

// admit decides what needs no look at the bucket, and whether anything that the
// request is about is fenced.
func (x *exchange) admit() (fenced bool, err error) {
	t := &x.target
	switch {
	case t.Name == "":
		return false, x.unknown()
	case t.Access == operation.Write && x.client.ReadOnly:
		return false, refusal.New(refusal.AccessDenied, "Access Denied")
	}
	if t.Bucket != "" {
		if err := x.mayUse(t.Bucket); err != nil {
			return false, err
		}
		if err := x.ownedAsExpected(); err != nil {
			return false, err
		}
	}
	if err := address.Key(t.Key); err != nil {
		return false, err
	}
	tokens, err := carrier.S3Tokens(x.r.Header, t.Query, x.covers)
	if err != nil && !isNoToken(err) {
		return false, err
	}
	x.tokens = tokens
	if fenced, err = x.area(); err != nil {
		return false, err
	}
	switch {
	case !fenced && len(tokens) > 0:
		return false, refusal.Fence(guard.ErrNoToken, "no resource covers this bucket or key, so a token has no meaning there")
	case !fenced:
		return false, nil
	case len(tokens) == 0 && t.Name == operation.DeleteObjects && x.g.config.Untokened == Allow:
		// Each key is decided by its own: some may not be fenced.
	case len(tokens) == 0 && (t.Access == operation.Write || x.g.config.Untokened == Deny):
		return false, refusal.Fence(guard.ErrNoToken, "the request carries none")
	}
	return fenced, nil
}

func (g *Gateway) begin(w *http1.Response, r *http.Request) *exchange {
	x := &exchange{g: g, r: r, id: strings.ToUpper(rand.Text()[:16]), begun: time.Now()}
	x.in = wire.NewIntake(w, r, g.config.MaxBodyTime, g.metrics.BytesUp)
	x.w = wire.NewAnswer(w, r, g.config.MaxBodyTime, g.metrics.BytesDown, x.settle)
	r.Body = x.in
	x.w.Header().Set("X-Amz-Request-Id", x.id)
	return x
}
