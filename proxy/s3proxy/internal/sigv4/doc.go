// Package sigv4 verifies that a request to S3 comes from whom it says, and signs
// requests to a store.
//
// [Verifier] is the server's half of AWS Signature Version 4 as S3 uses it: in the
// Authorization header or in the query (presigned), over a payload that is
// hashed, left unsigned, or sent in signed or unsigned chunks with or without a
// trailer. [Verifier.Verify] decides on the head of a request and reads nothing
// of its body; [Request.Payload] then reads the body and takes the chunks off.
//
//	request ── Verify ──▶ Request ── Payload ──▶ Payload ── Read ──▶ the object's bytes
//	              │                     │                    │
//	              ▼                     ▼                    ▼
//	           *Error                *Error               *Error     what S3 would answer
//
// [Signer] is the client's half, for a header over a payload whose hash is known, or
// over one in signed chunks.
//
// # Guaranteed
//
//   - What a signature does not cover decides nothing: every x-amz-* header is
//     signed, and so are the host, the path, and the whole query. A path or a
//     query that is spelled in two ways means the same in both.
//   - The last byte of a payload is handed out only when its length, its hash,
//     all its chunk signatures, its trailer and every checksum that the client
//     sent were right. So who writes a payload on as it comes, and ends with an
//     error what it could not complete, has stored nothing that was tampered with.
//   - Memory is bounded by constants, whatever lengths a client declares.
//   - Signatures are compared in constant time, and an unknown key costs the
//     work of a known one.
//
// # Not guaranteed
//
//   - Bytes before the last are handed out before the signature of their chunk
//     was seen; it comes in front of the chunk, which may be of any size.
//   - A signature is good for as long as its date is near: repeating a request
//     is not noticed here, as S3 does not notice it.
//
// What net/http has taken out of the header of a request (Host, Content-Length,
// Transfer-Encoding) is put back where a client signed it. Trailer fields of
// HTTP itself are not read.
//
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html
package sigv4
