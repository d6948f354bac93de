"""What boto3's users do with it. Says what came of each act.

boto3_client.py      does all of it
boto3_client.py late is overtaken in the middle of an upload
boto3_client.py not  tries to write, each to a key of its own, and goes on when it may not
boto3_client.py once writes one object
"""

import base64
import datetime
import hashlib
import io
import os
import random
import re
import sys
import urllib.error
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

BUCKET = os.environ["BUCKET"]
MIB = 1 << 20
# Of a response's headers, those that differ from request to request, and what
# the server says of itself.
VARYING = {"date", "server", "x-amz-request-id", "x-amz-id-2", "connection", "keep-alive", "transfer-encoding",
           "x-amz-bucket-region", "x-amz-access-point-alias", "x-amz-object-size"}
# The continuation means something to the server only, and NextMarker is told by
# some servers without a delimiter too.
OPAQUE = {"EncodingType", "ContinuationToken", "NextContinuationToken", "NextMarker"}


def connect(**config):
    # Without a version it presigns as S3 has not for years.
    config = Config(signature_version="s3v4", s3={"addressing_style": "path"}, **config)
    return boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], config=config)


s3 = connect()
transfer = TransferConfig(multipart_threshold=6 * MIB, multipart_chunksize=5 * MIB, max_concurrency=3)


def data(n, seed=1):
    return random.Random(seed).randbytes(n)


def digest(b):
    return f"{len(b)} bytes {hashlib.sha256(b).hexdigest()[:16]}"


def plain(value, sums):
    """A response without what differs from one run to the next, what is said in
    other words (nothing, and nothing at all; the length of XML), how a listing
    is encoded, and checksums unless they answer the client's own: the proxy has
    those of what is stored, which is more than the client's bytes, and tells none.
    """
    if isinstance(value, dict):
        if "HTTPHeaders" in value:
            headers = {k: v for k, v in value["HTTPHeaders"].items() if k not in VARYING and not k.startswith("x-amz-checksum")}
            if headers.get("content-type") == "application/xml" or headers.get("content-length") == "0":
                headers.pop("content-length", None)
            return {"status": value["HTTPStatusCode"], "headers": plain(headers, sums)}
        made = {k: plain(v, sums) for k, v in sorted(value.items()) if k not in OPAQUE and (sums or not k.startswith("Checksum"))}
        if "ResponseMetadata" in made:  # newer versions of boto3 tell what the server says of itself
            made = {k: v for k, v in made.items() if k not in ("Size", "AccessPointAlias", "BucketRegion")}
        if "TagSet" in made:
            made["TagSet"].sort(key=str)  # it is a set
        return {k: v for k, v in made.items() if v not in ("", {}, [])}
    if isinstance(value, list):
        return [plain(v, sums) for v in value]
    if isinstance(value, datetime.datetime):
        return "TIME"
    if hasattr(value, "read"):
        return digest(value.read())
    return value


def show(name, act, sums=False):
    """Does it, and says what came of it."""
    try:
        result = act()
    except ClientError as e:
        r = e.response["ResponseMetadata"]
        print(f"{name}: {r['HTTPStatusCode']} {e.response['Error']['Code']}: {e.response['Error'].get('Message')}; tried {r.get('RetryAttempts', 0) + 1}")
        result = None
    except (BotoCoreError, boto3.exceptions.Boto3Error, urllib.error.HTTPError) as e:
        print(f"{name}: {type(e).__name__}: {e}")
        result = None
    else:
        print(f"{name}: {plain(result, sums)}")
    sys.stdout.flush()
    return result


def op(name, act, client=None, **args):
    return show(f"{name} {act}", lambda: getattr(client or s3, act)(Bucket=BUCKET, **args), sums="ChecksumAlgorithm" in args)


def fetch(url, method="GET", body=None, **headers):
    request = urllib.request.Request(url, data=body, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request) as r:
            return {"status": r.status, "body": digest(r.read())}
    except urllib.error.HTTPError as e:
        code = re.search(rb"<Code>(.*?)</Code>", e.read())
        return {"status": e.code, "code": code and code.group(1)}


def with_header(event, name, value, act):
    """Does it with a header that this version of boto3 has no argument for."""

    def add(request, **_):
        request.headers[name] = value

    s3.meta.events.register(f"before-sign.s3.{event}", add)
    try:
        return act()
    finally:
        s3.meta.events.unregister(f"before-sign.s3.{event}", add)


def objects():
    body = data(100_000)
    put = op("one", "put_object", Key="one", Body=body, ContentType="text/x-one", CacheControl="max-age=60", ContentDisposition="inline",
             ContentLanguage="de", Expires=datetime.datetime(2031, 2, 3, 4, 5, 6), Metadata={"colour": "grün".encode("ascii", "xmlcharrefreplace").decode(), "x-y": "1  2"})
    got = op("one", "get_object", Key="one")
    head = op("one", "head_object", Key="one")
    print("one etag:", put["ETag"] == got["ETag"] == head["ETag"], s3.get_object(Bucket=BUCKET, Key="one")["Body"].read() == body)
    etag = put["ETag"]
    for r in ["bytes=0-0", "bytes=63-64", "bytes=99990-", "bytes=-7", "bytes=50-200000", "bytes=100000-", "bytes=-0", "bytes=5-2", "pages=1-2", "bytes=1-2,5-6"]:
        op(r, "get_object", Key="one", Range=r)
    op("range", "head_object", Key="one", Range="bytes=10-19")
    for name, key in (("GetObject", "get_object"), ("HeadObject", "head_object")):
        op(f"{name} if match", key, Key="one", IfMatch=etag)
        op(f"{name} if match, unquoted", key, Key="one", IfMatch=etag.strip('"'))
        op(f"{name} if match, other", key, Key="one", IfMatch='"00000000000000000000000000000000"')
        op(f"{name} if none match", key, Key="one", IfNoneMatch=etag)
        op(f"{name} if none match, other", key, Key="one", IfNoneMatch='"x"')
        op(f"{name} if modified since long ago", key, Key="one", IfModifiedSince=datetime.datetime(2001, 1, 1))
        op(f"{name} if unmodified since long ago", key, Key="one", IfUnmodifiedSince=datetime.datetime(2001, 1, 1))
        op(f"{name} missing", key, Key="missing")
    op("overrides", "get_object", Key="one", ResponseContentType="text/plain", ResponseCacheControl="no-store",
       ResponseContentDisposition='attachment; filename="x y"', ResponseContentEncoding="identity", ResponseContentLanguage="fr")
    op("part 1", "get_object", Key="one", PartNumber=1)
    op("part 2", "get_object", Key="one", PartNumber=2)
    op("empty", "put_object", Key="empty", Body=b"")
    op("empty", "get_object", Key="empty")
    op("empty, range", "get_object", Key="empty", Range="bytes=0-0")
    for key in ["a b+c/ü~=:@&$,;'(1)!.txt", "a%2Fb/%20", "-/_/..x/#?x=1", "emoji/😀", "<&>\"'", "long/" + "k" * 200]:
        op(f"key {key!r}", "put_object", Key=key, Body=key.encode())
        op(f"key {key!r}", "get_object", Key=key)
    op("bucket", "head_bucket")
    show("no bucket", lambda: s3.get_object(Bucket=BUCKET + "-not-there", Key="x"))
    show("no bucket to put in", lambda: s3.put_object(Bucket=BUCKET + "-not-there", Key="x", Body=b"1"))
    op("location", "get_bucket_location")
    print("among the buckets:", BUCKET in [b["Name"] for b in s3.list_buckets()["Buckets"]])
    show("make it again", lambda: s3.create_bucket(Bucket=BUCKET))


def digests():
    body = data(5000, 2)
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    op("md5", "put_object", Key="sum/md5", Body=body, ContentMD5=md5)
    once = connect(retries={"total_max_attempts": 1})  # it takes a wrong digest for an accident on the way
    op("md5, wrong", "put_object", once, Key="sum/md5-wrong", Body=body + b"x", ContentMD5=md5)
    op("md5, no digest", "put_object", Key="sum/md5-wrong", Body=body, ContentMD5="bm9uZQ==")
    for algorithm in ["CRC32", "SHA1", "SHA256"]:
        op(algorithm, "put_object", Key="sum/" + algorithm, Body=body, ChecksumAlgorithm=algorithm)
        op(algorithm, "get_object", Key="sum/" + algorithm, ChecksumMode="ENABLED")
        op(algorithm + " of a stream", "put_object", Key="sum/stream-" + algorithm, Body=io.BytesIO(body), ChecksumAlgorithm=algorithm)
    op("crc32, wrong", "put_object", once, Key="sum/wrong", Body=body, ChecksumCRC32="AAAAAA==")
    op("nothing there", "head_object", Key="sum/wrong")


def conditions():
    def put(body, **extra):
        return lambda: s3.put_object(Bucket=BUCKET, Key="cond", Body=body, **extra)

    first = show("create", lambda: with_header("PutObject", "If-None-Match", "*", put(b"first")))
    show("create again", lambda: with_header("PutObject", "If-None-Match", "*", put(b"second")))
    show("update", lambda: with_header("PutObject", "If-Match", first["ETag"], put(b"third")))
    show("update again", lambda: with_header("PutObject", "If-Match", first["ETag"], put(b"fourth")))
    show("update nothing", lambda: with_header("PutObject", "If-Match", first["ETag"], lambda: s3.put_object(Bucket=BUCKET, Key="cond-none", Body=b"x")))
    op("conditional", "get_object", Key="cond")
    show("delete if match, wrong", lambda: with_header("DeleteObject", "If-Match", first["ETag"], lambda: s3.delete_object(Bucket=BUCKET, Key="cond")))
    op("still there", "get_object", Key="cond")


def copies():
    source = {"Bucket": BUCKET, "Key": "one"}
    op("copy", "copy_object", Key="copy/plain", CopySource=source)
    op("copy", "get_object", Key="copy/plain")
    op("copy, other metadata", "copy_object", Key="copy/replaced", CopySource=source, MetadataDirective="REPLACE", Metadata={"new": "1"}, ContentType="text/new")
    op("copy, other metadata", "head_object", Key="copy/replaced")
    op("copy onto itself", "copy_object", Key="copy/plain", CopySource={"Bucket": BUCKET, "Key": "copy/plain"})
    op("copy onto itself, replacing", "copy_object", Key="cond", CopySource={"Bucket": BUCKET, "Key": "cond"}, MetadataDirective="REPLACE", Metadata={"own": "2"})
    op("copy of nothing", "copy_object", Key="copy/none", CopySource={"Bucket": BUCKET, "Key": "missing"})
    op("copy from no bucket", "copy_object", Key="copy/none", CopySource={"Bucket": BUCKET + "-not-there", "Key": "one"})
    op("copy if match, wrong", "copy_object", Key="copy/none", CopySource=source, CopySourceIfMatch='"x"')
    etag = s3.head_object(**source)["ETag"]
    op("copy if match", "copy_object", Key="copy/matched", CopySource=source, CopySourceIfMatch=etag)
    op("copy if none match", "copy_object", Key="copy/none", CopySource=source, CopySourceIfNoneMatch=etag)
    odd = "a b+c/ü~=:@&$,;'(1)!.txt"
    op("copy of an odd key", "copy_object", Key="copy/" + odd, CopySource={"Bucket": BUCKET, "Key": odd})
    op("copy of an odd key", "get_object", Key="copy/" + odd)


def multipart():
    with open("large", "wb") as f:
        f.write(data(12 * MIB + 345, 3))
    show("upload", lambda: s3.upload_file("large", BUCKET, "multi/file", ExtraArgs={"Metadata": {"m": "1"}, "ContentType": "text/x-multi"}, Config=transfer))
    op("upload", "head_object", Key="multi/file")
    show("download", lambda: s3.download_file(BUCKET, "multi/file", "back", Config=transfer))
    with open("back", "rb") as f:
        print("download:", digest(f.read()))
    for n in (1, 2, 3, 4):
        op(f"part {n}", "get_object", Key="multi/file", PartNumber=n)
        op(f"part {n}", "head_object", Key="multi/file", PartNumber=n)
    op("over the seam", "get_object", Key="multi/file", Range=f"bytes={5 * MIB - 3}-{5 * MIB + 3}")
    show("managed copy", lambda: s3.copy({"Bucket": BUCKET, "Key": "multi/file"}, BUCKET, "multi/copied", Config=transfer))
    op("managed copy", "get_object", Key="multi/copied")
    show("stream", lambda: s3.upload_fileobj(io.BytesIO(data(7 * MIB, 4)), BUCKET, "multi/stream", Config=transfer))
    op("stream", "get_object", Key="multi/stream")

    id = op("by hand", "create_multipart_upload", Key="multi/hand", Metadata={"h": "1"}, ContentType="text/hand")["UploadId"]
    parts = {}
    for n, size in ((3, 1234), (1, 5 * MIB), (2, 5 * MIB), (2, 5 * MIB + 1)):
        parts[n] = op(f"part {n}", "upload_part", Key="multi/hand", UploadId=id, PartNumber=n, Body=data(size, n))["ETag"]
    op("parts", "list_parts", Key="multi/hand", UploadId=id)
    op("parts, a page", "list_parts", Key="multi/hand", UploadId=id, MaxParts=1, PartNumberMarker=1)
    op("uploads", "list_multipart_uploads", Prefix="multi/")
    complete = lambda numbers, etags=None: {"Parts": [{"PartNumber": n, "ETag": (etags or parts)[n]} for n in numbers]}
    op("wrong order", "complete_multipart_upload", Key="multi/hand", UploadId=id, MultipartUpload=complete([2, 1]))
    op("wrong etag", "complete_multipart_upload", Key="multi/hand", UploadId=id, MultipartUpload=complete([1, 2], {1: parts[2], 2: parts[1]}))
    op("no such part", "complete_multipart_upload", Key="multi/hand", UploadId=id, MultipartUpload={"Parts": [{"PartNumber": 9, "ETag": parts[1]}]})
    done = op("complete", "complete_multipart_upload", Key="multi/hand", UploadId=id, MultipartUpload=complete([1, 2, 3]))
    got = op("complete", "get_object", Key="multi/hand")
    print("complete etag:", done["ETag"] == got["ETag"], re.fullmatch(r'"[0-9a-f]{32}-3"', got["ETag"]) is not None)
    op("no such upload", "upload_part", Key="multi/hand", UploadId="bm90LXRoZXJl", PartNumber=1, Body=b"x")
    op("no such upload", "abort_multipart_upload", Key="multi/hand", UploadId="bm90LXRoZXJl")
    id = op("to abort", "create_multipart_upload", Key="multi/aborted")["UploadId"]
    op("copy part", "upload_part_copy", Key="multi/aborted", UploadId=id, PartNumber=1, CopySource={"Bucket": BUCKET, "Key": "multi/file"}, CopySourceRange=f"bytes=10-{5 * MIB}")
    op("to abort", "list_parts", Key="multi/aborted", UploadId=id)
    op("abort", "abort_multipart_upload", Key="multi/aborted", UploadId=id)
    op("aborted", "list_parts", Key="multi/aborted", UploadId=id)
    op("aborted", "head_object", Key="multi/aborted")
    op("uploads", "list_multipart_uploads")


def listings():
    for i in range(12):
        s3.put_object(Bucket=BUCKET, Key=f"list/{i % 3}/{i:02}", Body=data(i))
    for act in ("list_objects_v2", "list_objects"):
        op("all", act, Prefix="list/")
        op("folders", act, Prefix="list/", Delimiter="/")
        op("two", act, Prefix="list/", MaxKeys=2)
        op("none", act, Prefix="list/", MaxKeys=0)
        op("nothing", act, Prefix="nothing/")
        op("odd", act, Prefix="a b+c/")
        pages = [[o["Key"] for o in page.get("Contents", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])]
                 for page in s3.get_paginator(act).paginate(Bucket=BUCKET, PaginationConfig={"PageSize": 5}, Prefix="list/")]
        print(act, "pages:", pages)
        pages = [[p["Prefix"] for p in page.get("CommonPrefixes", [])] for page in s3.get_paginator(act).paginate(Bucket=BUCKET, Delimiter="/", PaginationConfig={"PageSize": 2})]
        print(act, "pages of folders:", pages)
    op("after", "list_objects_v2", Prefix="list/", StartAfter="list/1/04", FetchOwner=True)
    op("marker", "list_objects", Prefix="list/", Marker="list/1/04")


def presigned():
    sign = lambda act, **args: s3.generate_presigned_url(act, Params={"Bucket": BUCKET, **args}, ExpiresIn=60)
    print("presigned put:", fetch(sign("put_object", Key="signed/put"), "PUT", data(2000, 5)))
    print("presigned put, typed:", fetch(sign("put_object", Key="signed/typed", ContentType="text/x", Metadata={"a": "b"}), "PUT", b"typed", content_type="text/x", x_amz_meta_a="b"))
    op("presigned", "head_object", Key="signed/typed")
    print("presigned get:", fetch(sign("get_object", Key="signed/put")))
    print("presigned get, range:", fetch(sign("get_object", Key="signed/put"), Range="bytes=10-19"))
    print("presigned get, overridden:", fetch(sign("get_object", Key="signed/put", ResponseContentType="text/z")))
    print("presigned head:", fetch(sign("head_object", Key="signed/put"), "HEAD"))
    print("presigned list:", fetch(sign("list_objects_v2", Prefix="nothing"))["status"])
    print("presigned for another method:", fetch(sign("get_object", Key="signed/put"), "DELETE"))
    print("presigned for another key:", fetch(sign("get_object", Key="signed/put").replace("signed/put", "signed/typed")))
    print("presigned delete:", fetch(sign("delete_object", Key="signed/typed"), "DELETE"))
    op("presigned delete", "head_object", Key="signed/typed")


def tags():
    op("tagged", "put_object", Key="tags/a", Body=b"tagged", Tagging="colour=red&size=1%202")
    op("tagged", "get_object_tagging", Key="tags/a")
    op("tag", "put_object_tagging", Key="tags/a", Tagging={"TagSet": [{"Key": "shape", "Value": "round"}]})
    op("tag", "get_object_tagging", Key="tags/a")
    op("tag", "get_object", Key="tags/a")
    op("untag", "delete_object_tagging", Key="tags/a")
    op("untag", "get_object_tagging", Key="tags/a")
    op("tags of nothing", "get_object_tagging", Key="missing")


def deletions():
    op("delete", "delete_object", Key="sum/CRC32")
    op("delete", "get_object", Key="sum/CRC32")
    op("delete what is not there", "delete_object", Key="never")
    op("delete many", "delete_objects", Delete={"Objects": [{"Key": "list/0/00"}, {"Key": "list/0/03"}, {"Key": "never"}, {"Key": "a b+c/ü~=:@&$,;'(1)!.txt"}]})
    op("delete many, quietly", "delete_objects", Delete={"Objects": [{"Key": "list/0/06"}, {"Key": "list/0/09"}], "Quiet": True})
    op("what is left", "list_objects_v2", Prefix="list/", Delimiter="/")
    op("put again", "put_object", Key="list/0/00", Body=b"again")
    op("put again", "get_object", Key="list/0/00")
    for acl in ("private", "bucket-owner-full-control"):
        op(acl, "put_object", Key="acl/" + acl, Body=b"1", ACL=acl)


def everything():
    for part in (objects, digests, conditions, copies, multipart, listings, presigned, tags, deletions):
        print("--", part.__name__)
        part()


def late():
    id = op("upload", "create_multipart_upload", Key="late/multi")["UploadId"]
    etag = op("part", "upload_part", Key="late/multi", UploadId=id, PartNumber=1, Body=b"part")["ETag"]
    op("put", "put_object", Key="late/put", Body=b"before")
    op("put", "put_object", Key="late/delete", Body=b"before")
    print("claim?", flush=True)
    sys.stdin.readline()
    op("put", "put_object", Key="late/put", Body=b"after")
    op("delete", "delete_object", Key="late/delete")
    op("part", "upload_part", Key="late/multi", UploadId=id, PartNumber=2, Body=b"part")
    op("complete", "complete_multipart_upload", Key="late/multi", UploadId=id, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})


def may_not():
    with open("large", "wb") as f:
        f.write(data(12 * MIB, 3))
    op("put", "put_object", Key="not/put", Body=b"1")
    op("put large", "put_object", Key="not/large", Body=data(6 * MIB))
    op("put with a sum", "put_object", Key="not/sum", Body=io.BytesIO(b"123"), ChecksumAlgorithm="SHA256")
    op("overwrite", "put_object", Key="seed/a", Body=b"1")
    op("copy", "copy_object", Key="not/copy", CopySource={"Bucket": BUCKET, "Key": "seed/a"})
    op("delete", "delete_object", Key="seed/b")
    op("delete many", "delete_objects", Delete={"Objects": [{"Key": "seed/a"}, {"Key": "seed/c"}]})
    op("create upload", "create_multipart_upload", Key="not/create")
    show("upload", lambda: s3.upload_file("large", BUCKET, "not/upload", Config=transfer))
    op("tag", "put_object_tagging", Key="seed/c", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    print("presigned put:", fetch(s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "not/signed"}), "PUT", data(2000)))


def once():
    op("put", "put_object", Key="once", Body=b"1")


{"": everything, "late": late, "not": may_not, "once": once}[(sys.argv + [""])[1]]()
