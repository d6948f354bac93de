#!/usr/bin/env bash
# What users of the aws command do with it. Says what came of each act.
#   aws.sh      does all of it
#   aws.sh not  tries to write, each to a key of its own
#   aws.sh once writes one object
set -uo pipefail
exec 2>&1

# said runs a command of the shell's and says what came of it. What it does in
# parallel comes in any order.
said() {
	echo "\$ $*"
	"$@" 2>&1 | sed -E 's/^[0-9-]{10} [0-9:]{8}/TIME/' | LC_ALL=C sort
	echo "= ${PIPESTATUS[0]}"
}
# content does the same for one that prints what is in an object.
content() {
	echo "\$ ${*%%\?*}"
	"$@" | cksum
	echo "= ${PIPESTATUS[0]}"
}
s3() { said /usr/bin/aws --endpoint-url "$ENDPOINT" s3 "$@"; }
api() {
	local act=$1
	shift
	echo "\$ $act $*"
	/usr/bin/aws --endpoint-url "$ENDPOINT" s3api "$act" --bucket "$BUCKET" "$@"
	echo "= $?"
}
to=s3://$BUCKET

files() {
	mkdir -p tree/sub/deep
	seq 1 100 >tree/a.txt
	seq 1 2000 >"tree/sub/b c+d=ü.txt"
	: >tree/sub/empty.json
	seq 1 50000 >tree/sub/deep/numbers.csv
	seq 1 3000000 | head -c 17000000 >large.bin
}

everything() {
	files
	s3 cp tree/a.txt "$to/meta.txt" --no-progress --content-type text/x-meta --metadata colour=red --cache-control no-cache
	s3 cp - "$to/stdin.txt" <tree/a.txt
	content /usr/bin/aws --endpoint-url "$ENDPOINT" s3 cp "$to/stdin.txt" -
	s3 cp large.bin "$to/large.bin" --no-progress
	s3 cp "$to/large.bin" back.bin --no-progress
	said cmp large.bin back.bin
	s3 cp "$to/large.bin" "$to/copied.bin" --no-progress
	s3 cp "$to/meta.txt" "$to/copied.txt" --no-progress
	s3 cp "$to/missing" nowhere --no-progress
	s3 sync tree "$to/tree" --no-progress
	echo changed, and longer >>tree/a.txt
	rm tree/sub/empty.json
	s3 sync tree "$to/tree" --delete --no-progress
	s3 sync "$to/tree" again --no-progress
	said diff -r tree again
	s3 mv "$to/copied.txt" "$to/moved.txt" --no-progress
	s3 mv tree/a.txt "$to/moved/" --no-progress
	s3 ls "$to"
	s3 ls "$to/tree/" --recursive --summarize
	s3 rm "$to/tree" --recursive
	s3 ls "$to" --recursive
	local url
	url=$(/usr/bin/aws --endpoint-url "$ENDPOINT" s3 presign "$to/meta.txt")
	content curl -sS -w '%{http_code} %{content_type}' "$url"
	content curl -sS -r 3-9 -w '%{http_code} %{size_download}' "$url"
	content curl -sS -o answer -w '%{http_code} %{content_type}' "${url/meta.txt/sha}"
	api head-object --key meta.txt
	api head-object --key large.bin
	api get-object --key meta.txt --range bytes=10-29 part
	said cksum part
	api get-object --key large.bin --range bytes=8388600-8388620 part
	said cksum part
	api get-object --key large.bin --part-number 3 part
	api put-object --key sha --body large.bin --checksum-algorithm SHA256
	api get-object --key sha back.bin
	said cmp large.bin back.bin
	api list-objects-v2 --max-items 2 --query 'Contents[].[Key,Size]'
	api delete-objects --delete 'Objects=[{Key=sha},{Key=never}]'
}

may_not() {
	files
	s3 cp tree/a.txt "$to/not/cp" --no-progress
	s3 cp large.bin "$to/not/large" --no-progress
	s3 cp "$to/seed/a" "$to/not/copied" --no-progress
	s3 mv "$to/seed/a" "$to/not/moved" --no-progress
	s3 rm "$to/seed/b"
	s3 sync tree "$to/not/tree" --no-progress --exclude '*/*'
	api put-object --key not/put --body tree/a.txt
	api delete-objects --delete 'Objects=[{Key=seed/a},{Key=seed/c}]'
}

case ${1-} in
'') everything ;;
not) may_not ;;
once)
	files
	api put-object --key once --body tree/a.txt
	;;
esac
