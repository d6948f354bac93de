// What users of the AWS SDK for JavaScript v3 do with it. Says what came of each act.
//
// js_client.mjs MODULES      does all of it
// js_client.mjs MODULES late is overtaken in the middle of an upload
// js_client.mjs MODULES not  tries to write, each to a key of its own
// js_client.mjs MODULES once writes one object

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { PassThrough, Readable } from "node:stream";
import { createInterface } from "node:readline";

const [modules, task] = process.argv.slice(2);
const require = createRequire(modules + "/");
const aws = require("@aws-sdk/client-s3");
const { Upload } = require("@aws-sdk/lib-storage");
const { getSignedUrl } = require("@aws-sdk/s3-request-presigner");

const Bucket = process.env.BUCKET;
const MiB = 1 << 20;
const config = { endpoint: process.env.ENDPOINT, region: process.env.AWS_REGION, forcePathStyle: true };
const s3 = new aws.S3Client(config);

// data is the same bytes every time.
function data(n, seed = 1) {
  const parts = [];
  for (let i = 0, size = 0; size < n; i++, size += 64) parts.push(createHash("sha512").update(`${seed}/${i}`).digest());
  return Buffer.concat(parts).subarray(0, n);
}

// stream is one whose length nobody knows.
const stream = (buffer) => Readable.from((function* () { for (let i = 0; i < buffer.length; i += 10000) yield buffer.subarray(i, i + 10000); })());
const digest = (b) => `${b.length} bytes ${createHash("sha256").update(b).digest("hex").slice(0, 16)}`;

// plain is a response without what differs from one run to the next, what the
// server says of itself, and checksums unless they answer the client's own: the
// proxy has those of what is stored, which is more than the client's bytes, and
// tells none.
async function plain(value, sums) {
  if (value instanceof Date) return value.getUTCFullYear() > 2023 && value.getUTCFullYear() < 2030 ? "TIME" : value.toISOString();
  if (value?.transformToByteArray) return digest(Buffer.from(await value.transformToByteArray()));
  if (Array.isArray(value)) return Promise.all(value.map((v) => plain(v, sums)));
  if (value && typeof value === "object") {
    const made = {};
    for (const key of Object.keys(value).sort()) {
      if (["$metadata", "EncodingType"].includes(key) || (key.startsWith("Checksum") && (!sums || key === "ChecksumType")) || (key === "Size" && value.$metadata)) continue;
      if (value[key] !== undefined && value[key] !== "") made[key] = await plain(value[key], sums);
    }
    return value.$metadata ? { status: value.$metadata.httpStatusCode, attempts: value.$metadata.attempts, ...made } : made;
  }
  return value;
}

async function show(name, act, sums) {
  try {
    const result = await act();
    console.log(`${name}: ${JSON.stringify(await plain(result, sums))}`);
    return result;
  } catch (e) {
    console.log(`${name}: ${e.$metadata?.httpStatusCode} ${e.name}: ${e.message}; tried ${e.$metadata?.attempts}`);
    return {};
  }
}

const op = (name, command, args, client = s3) => show(`${name} ${command}`, () => client.send(new aws[command + "Command"]({ Bucket, ...args })), ["PutObject", "UploadPart"].includes(command));
const upload = (name, Key, Body, more) =>
  show(name, () => new Upload({ client: s3, params: { Bucket, Key, Body, ...more }, partSize: 5 * MiB, queueSize: 3 }).done());

async function fetched(name, command, args, request = {}) {
  const url = await getSignedUrl(s3, new aws[command + "Command"]({ Bucket, ...args }), { expiresIn: 60 });
  const r = await fetch(url, request);
  const body = Buffer.from(await r.arrayBuffer());
  console.log(`${name}: ${r.status} ${r.ok ? digest(body) : body.toString().match(/<Code>(.*?)<\/Code>/)?.[1]}`);
}

async function everything() {
  const body = data(100000);
  const put = await op("one", "PutObject", { Key: "one", Body: body, ContentType: "text/x-one", CacheControl: "max-age=60", Metadata: { colour: "red" } });
  const got = await op("one", "GetObject", { Key: "one" });
  await op("one", "HeadObject", { Key: "one", ChecksumMode: "ENABLED" });
  console.log("etag:", put.ETag === got.ETag);
  await op("range", "GetObject", { Key: "one", Range: "bytes=60-70" });
  await op("range, past the end", "GetObject", { Key: "one", Range: "bytes=100000-" });
  await op("missing", "GetObject", { Key: "missing" });
  await op("missing", "HeadObject", { Key: "missing" });
  await op("no bucket", "GetObject", { Bucket: Bucket + "-not-there", Key: "one" });
  await op("empty", "PutObject", { Key: "empty", Body: "" });
  await op("empty", "GetObject", { Key: "empty" });
  for (const algorithm of ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]) {
    await op(algorithm, "PutObject", { Key: "sum/" + algorithm, Body: body, ChecksumAlgorithm: algorithm });
    await op(algorithm, "GetObject", { Key: "sum/" + algorithm, ChecksumMode: "ENABLED" });
    await op(`stream ${algorithm}`, "PutObject", { Key: "stream/" + algorithm, Body: stream(body), ContentLength: body.length, ChecksumAlgorithm: algorithm });
  }
  await op("stream", "PutObject", { Key: "stream/plain", Body: stream(body), ContentLength: body.length });
  await op("stream", "GetObject", { Key: "stream/plain" });
  const once = new aws.S3Client({ ...config, maxAttempts: 1 });
  await op("wrong sum", "PutObject", { Key: "sum/wrong", Body: body, ChecksumCRC32: "AAAAAA==" }, once);
  await op("wrong sum", "HeadObject", { Key: "sum/wrong" });
  for (const Key of ["a b+c/ü~=:@&$,;'(1)!*.txt", "a%2Fb/%20", "emoji/😀", "<&>\"'"]) {
    await op(Key, "PutObject", { Key, Body: Key });
    await op(Key, "GetObject", { Key });
  }

  const first = await op("create", "PutObject", { Key: "cond", Body: "first", IfNoneMatch: "*" });
  await op("create again", "PutObject", { Key: "cond", Body: "second", IfNoneMatch: "*" });
  await op("update", "PutObject", { Key: "cond", Body: "third", IfMatch: first.ETag });
  await op("update again", "PutObject", { Key: "cond", Body: "fourth", IfMatch: first.ETag });
  await op("if match", "GetObject", { Key: "cond", IfMatch: first.ETag });
  await op("if none match", "GetObject", { Key: "cond", IfNoneMatch: first.ETag });
  await op("delete if match", "DeleteObject", { Key: "cond", IfMatch: first.ETag });

  const large = data(12 * MiB + 345, 3);
  await upload("upload", "multi/upload", large, { Metadata: { m: "1" }, ContentType: "text/x-multi" });
  await op("upload", "GetObject", { Key: "multi/upload" });
  await op("upload", "HeadObject", { Key: "multi/upload", PartNumber: 2 });
  const through = new PassThrough();
  stream(large).pipe(through);
  await upload("upload a stream", "multi/stream", through, { ChecksumAlgorithm: "SHA256" });
  await op("upload a stream", "GetObject", { Key: "multi/stream" });
  await upload("upload if none match", "multi/upload", large, { IfNoneMatch: "*" });
  await upload("upload small", "multi/small", "small");
  const { UploadId } = await op("by hand", "CreateMultipartUpload", { Key: "multi/hand" });
  const part = await op("by hand", "UploadPart", { Key: "multi/hand", UploadId, PartNumber: 1, Body: stream(large.subarray(0, 6 * MiB)), ContentLength: 6 * MiB });
  const copied = await op("by hand", "UploadPartCopy", { Key: "multi/hand", UploadId, PartNumber: 2, CopySource: `${Bucket}/multi/upload`, CopySourceRange: "bytes=5242870-5242890" });
  await op("by hand", "ListParts", { Key: "multi/hand", UploadId });
  await op("by hand", "CompleteMultipartUpload", { Key: "multi/hand", UploadId, MultipartUpload: { Parts: [
    { PartNumber: 1, ETag: part.ETag }, { PartNumber: 2, ETag: copied.CopyPartResult?.ETag }] } });
  await op("by hand", "GetObject", { Key: "multi/hand" });

  await op("copy", "CopyObject", { Key: "copied", CopySource: `${Bucket}/one` });
  await op("copy", "GetObject", { Key: "copied" });
  await op("copy of an odd key", "CopyObject", { Key: "copied", CopySource: encodeURIComponent(`${Bucket}/a b+c/ü~=:@&$,;'(1)!*.txt`) });
  for (let i = 0; i < 7; i++) await s3.send(new aws.PutObjectCommand({ Bucket, Key: `list/${i % 2}/${i}`, Body: "x".repeat(i) }));
  for await (const page of aws.paginateListObjectsV2({ client: s3, pageSize: 3 }, { Bucket, Prefix: "list/" })) console.log("page:", page.KeyCount, page.IsTruncated, page.Contents.map((o) => [o.Key, o.Size]));
  for await (const page of aws.paginateListObjectsV2({ client: s3, pageSize: 3 }, { Bucket, Delimiter: "/" })) console.log("page:", page.KeyCount, page.Contents?.map((o) => o.Key), page.CommonPrefixes?.map((p) => p.Prefix));
  await show("waits", () => aws.waitUntilObjectExists({ client: s3, maxWaitTime: 10 }, { Bucket, Key: "one" }).then((w) => w.state));
  await op("tag", "PutObjectTagging", { Key: "one", Tagging: { TagSet: [{ Key: "a", Value: "b" }] } });
  await op("tag", "GetObjectTagging", { Key: "one" });
  await fetched("presigned put", "PutObject", { Key: "signed" }, { method: "PUT", body: "signed" });
  await fetched("presigned get", "GetObject", { Key: "signed" });
  await fetched("presigned get, range", "GetObject", { Key: "signed" }, { headers: { Range: "bytes=1-3" } });
  await fetched("presigned, another method", "GetObject", { Key: "signed" }, { method: "DELETE" });
  await op("delete", "DeleteObject", { Key: "one" });
  await op("delete many", "DeleteObjects", { Delete: { Objects: [{ Key: "list/0/0" }, { Key: "never" }, { Key: "<&>\"'" }] } });
  await op("what is left", "ListObjectsV2", { Prefix: "list/" });
}

async function late() {
  const { UploadId } = await op("upload", "CreateMultipartUpload", { Key: "late/multi" });
  const part = await op("part", "UploadPart", { Key: "late/multi", UploadId, PartNumber: 1, Body: "part" });
  await op("put", "PutObject", { Key: "late/put", Body: "before" });
  await op("put", "PutObject", { Key: "late/delete", Body: "before" });
  console.log("claim?");
  await new Promise((resume) => createInterface({ input: process.stdin }).once("line", resume));
  await op("put", "PutObject", { Key: "late/put", Body: "after" });
  await op("delete", "DeleteObject", { Key: "late/delete" });
  await op("part", "UploadPart", { Key: "late/multi", UploadId, PartNumber: 2, Body: "part" });
  await op("complete", "CompleteMultipartUpload", { Key: "late/multi", UploadId, MultipartUpload: { Parts: [{ PartNumber: 1, ETag: part.ETag, ChecksumCRC32: part.ChecksumCRC32 }] } });
}

async function mayNot() {
  const large = data(12 * MiB);
  await op("put", "PutObject", { Key: "not/put", Body: "1" });
  await op("put large", "PutObject", { Key: "not/large", Body: large });
  await op("put a stream", "PutObject", { Key: "not/stream", Body: stream(large), ContentLength: large.length });
  await op("overwrite", "PutObject", { Key: "seed/a", Body: "1" });
  await op("create", "PutObject", { Key: "not/create", Body: "1", IfNoneMatch: "*" });
  await op("copy", "CopyObject", { Key: "not/copy", CopySource: `${Bucket}/seed/a` });
  await op("delete", "DeleteObject", { Key: "seed/b" });
  await op("delete many", "DeleteObjects", { Delete: { Objects: [{ Key: "seed/a" }, { Key: "seed/c" }] } });
  await upload("upload", "not/upload", large);
  await op("tag", "PutObjectTagging", { Key: "seed/c", Tagging: { TagSet: [{ Key: "a", Value: "b" }] } });
  await fetched("presigned put", "PutObject", { Key: "not/signed" }, { method: "PUT", body: "signed" });
}

const once = () => op("put", "PutObject", { Key: "once", Body: "1" });

await { undefined: everything, late, not: mayNot, once }[task]();
process.exit(0);
