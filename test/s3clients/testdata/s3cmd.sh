#!/usr/bin/env bash
# What users of s3cmd do with it. Says what came of each act.
#   s3cmd.sh      does all of it
#   s3cmd.sh not  tries to write, each to a key of its own
#   s3cmd.sh once writes one object
set -uo pipefail
exec 2>&1

said() {
	echo "\$ $*"
	"$@" 2>&1 | sed -E 's/^[0-9-]{10} [0-9:]{5}/TIME/; s/ in [0-9.]+ seconds, [-0-9.]+ [kKMG]?B\/s//' | LC_ALL=C sort
	echo "= ${PIPESTATUS[0]}"
}
# content does the same for one that prints what is in an object.
content() {
	echo "\$ $*"
	"$@" | cksum
	echo "= ${PIPESTATUS[0]}"
}
s3() { said /usr/bin/s3cmd --no-progress "$@"; }
to=s3://$BUCKET
host=${ENDPOINT#*://}
cat >"$HOME/.s3cfg" <<END
[default]
host_base = $host
host_bucket = $host
bucket_location = $AWS_REGION
use_https = False
signature_v2 = False
END

files() {
	mkdir -p tree/sub
	seq 1 100 >tree/a.txt
	seq 1 2000 >"tree/sub/b c+d=ü.txt"
	: >tree/sub/empty.json
	seq 1 3000000 | head -c 17000000 >large.bin
}

everything() {
	files
	s3 put tree/a.txt "$to/a.txt"
	s3 put tree/a.txt "$to/meta.txt" --add-header='x-amz-meta-colour: red' --add-header='Cache-Control: no-cache' --mime-type=text/x-meta
	s3 put - "$to/stdin.txt" <tree/a.txt
	s3 put --multipart-chunk-size-mb=5 large.bin "$to/large.bin"
	s3 get --force "$to/large.bin" back.bin
	said cmp large.bin back.bin
	content /usr/bin/s3cmd get "$to/stdin.txt" -
	head -c 9000000 large.bin >part.bin
	s3 get --continue "$to/large.bin" part.bin
	said cmp large.bin part.bin
	s3 get "$to/missing" nowhere
	s3 cp "$to/meta.txt" "$to/copied.txt"
	s3 cp "$to/large.bin" "$to/copied.bin"
	s3 mv "$to/copied.txt" "$to/moved.txt"
	s3 modify --add-header='x-amz-meta-shape: round' "$to/moved.txt"
	s3 info "$to/moved.txt"
	s3 info "$to"
	s3 sync tree/ "$to/tree/"
	s3 sync tree/ "$to/tree/"
	echo changed, and longer >>tree/a.txt
	rm tree/sub/empty.json
	s3 sync --delete-removed tree/ "$to/tree/"
	s3 sync "$to/tree/" again/
	said diff -r tree again
	s3 ls "$to"
	s3 du "$to/tree/"
	s3 multipart "$to"
	s3 del "$to/moved.txt"
	s3 del --recursive "$to/tree/"
	s3 ls --recursive "$to"
}

may_not() {
	files
	s3 put tree/a.txt "$to/not/put"
	s3 put tree/a.txt "$to/seed/a"
	s3 put --multipart-chunk-size-mb=5 large.bin "$to/not/multi"
	s3 put --disable-multipart large.bin "$to/not/large"
	s3 put - "$to/not/stdin" <tree/a.txt
	s3 cp "$to/seed/a" "$to/not/copied"
	s3 mv "$to/seed/a" "$to/not/moved"
	s3 del "$to/seed/b"
	s3 del --recursive --force "$to/seed"
	s3 sync tree/ "$to/not/tree/"
}

case ${1-} in
'') everything ;;
not) may_not ;;
once)
	files
	s3 put tree/a.txt "$to/once"
	;;
esac
