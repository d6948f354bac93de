#!/usr/bin/env bash
# What users of rclone do with it. Says what came of each act.
#   rclone.sh PROVIDER      does all of it
#   rclone.sh PROVIDER not  tries to write
#   rclone.sh PROVIDER once writes one object
set -uo pipefail
exec 2>&1

said() {
	echo "\$ $*"
	"$@" 2>&1 | sed -E 's,^[0-9/]+ [0-9:]+ ,,' | LC_ALL=C sort
	echo "= ${PIPESTATUS[0]}"
}
# content does the same for one that prints what is in an object.
content() {
	echo "\$ ${*%%\?*}"
	"$@" | cksum
	echo "= ${PIPESTATUS[0]}"
}
rc() { said /usr/bin/rclone "$@"; }
: >"$HOME/rclone.conf"
export RCLONE_CONFIG=$HOME/rclone.conf
export RCLONE_CONFIG_P_TYPE=s3 RCLONE_CONFIG_P_PROVIDER=$1 RCLONE_CONFIG_P_ENV_AUTH=true RCLONE_CONFIG_P_ENDPOINT=$ENDPOINT
export RCLONE_CONFIG_P_REGION=$AWS_REGION RCLONE_CONFIG_P_FORCE_PATH_STYLE=true RCLONE_S3_UPLOAD_CUTOFF=8Mi RCLONE_S3_CHUNK_SIZE=5Mi
# It makes up what the ETag of an upload in parts will be, and would not believe
# the proxy, whose first part is longer.
export RCLONE_S3_USE_MULTIPART_ETAG=false
# The server encodes no listing, though asked, and then a + is taken for a blank.
odd="b c+d=ü.txt"
[[ $1 == Other ]] || odd="b c=ü.txt"
export RCLONE_LOG_LEVEL=NOTICE
to=p:$BUCKET

files() {
	mkdir -p tree/sub/deep
	seq 1 100 >tree/a.txt
	seq 1 2000 >"tree/sub/$odd"
	: >tree/sub/empty.json
	seq 1 50000 >tree/sub/deep/numbers.csv
	seq 1 3000000 | head -c 17000000 >tree/large.bin
	find tree -type f -exec touch -d 2024-05-06T07:08:09.123456789Z {} +
}

everything() {
	files
	rc copy tree "$to/tree"
	rc copy tree "$to/tree"
	rc check tree "$to/tree"
	rc check --download tree "$to/tree"
	rc lsl "$to/tree"
	rc lsf -R --format pshm "$to/tree"
	rc size "$to"
	rc lsd "$to"
	content /usr/bin/rclone cat "$to/tree/a.txt" --offset 5 --count 20
	content /usr/bin/rclone cat "$to/tree/large.bin" --offset 5242870 --count 30
	echo changed, and longer >>tree/a.txt
	touch -d 2025-01-02T03:04:05Z tree/a.txt "tree/sub/$odd"
	rm tree/sub/empty.json
	rc sync tree "$to/tree"
	rc check tree "$to/tree"
	rc lsl "$to/tree"
	rc sync "$to/tree" again
	said diff -r tree again
	rc moveto "$to/tree/a.txt" "$to/moved/a.txt"
	rc moveto "$to/tree/large.bin" "$to/moved/large.bin"
	rc copyto "$to/moved/a.txt" "$to/copied.txt"
	echo piped | rc rcat "$to/rcat.txt"
	rc touch --no-create -t 2023-01-01T00:00:00 "$to/rcat.txt"
	rc lsl "$to/rcat.txt"
	content curl -sS -w '%{http_code}\n' "$(/usr/bin/rclone link --expire 60s "$to/rcat.txt")"
	rc deletefile "$to/rcat.txt"
	rc --retries 1 deletefile "$to/rcat.txt"
	rc --retries 1 check tree "$to/tree"
	rc purge "$to/tree"
	rc lsf -R "$to"
	rc cleanup "$to"
	rc backend list-multipart-uploads "$to"
}

may_not() {
	files
	# It begins again twice by itself; that is what --retries is about.
	rc --retries 1 copyto tree/a.txt "$to/not/copied"
	rc copyto tree/a.txt "$to/not/thrice"
	rc --retries 1 copyto --s3-no-head --no-check-dest tree/a.txt "$to/not/no-head"
	rc --retries 1 copyto tree/large.bin "$to/not/large"
	rc --retries 1 copyto tree/a.txt "$to/seed/a"
	rc --retries 1 sync tree "$to/seed"
	rc --retries 1 moveto "$to/seed/b" "$to/not/moved"
	rc --retries 1 deletefile "$to/seed/c"
	rc --retries 1 purge "$to/seed"
	echo piped | rc --retries 1 rcat "$to/not/rcat"
}

case ${2-} in
'') everything ;;
not) may_not ;;
once)
	files
	rc copyto tree/a.txt "$to/once"
	;;
esac
