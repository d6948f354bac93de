// Package s3proxy is the proxy that fences any client of S3.
//
// Clients sign their requests with keys that only the proxy knows, and carry
// their token where an SDK has its session token. The proxy verifies both, and
// does under the token what was asked for (package gateway, by package s3store);
// nothing of the frame in front of each object is to be seen. This package is the
// [Server] around it: it takes connections, counts, and lets them go.
//
// # What the proxy does not do
//
//   - It knows no users but those of its configuration, no policies and no ACLs:
//     a client may use a bucket or may not, and may write or may not.
//   - It makes and removes no buckets, and shows no versions of objects.
//   - It keeps nothing: several proxies in front of one store may stand behind
//     one address, if they have the same upstream.secret_key.
//   - HTTP/2 is not spoken, as S3 does not.
//
// # What differs from S3
//
// An ETag that looks like an MD5 ends in -0, for it is the MD5 of something else.
// Everything else that differs is refused with 501.
package s3proxy
