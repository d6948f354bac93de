package http1

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// difference is one between this package's server and net/http's that is intended.
type difference struct {
	why string
	is  func(ours, theirs *answered) bool
}

// differences are all that are intended, but two: the body of an answer that is no
// handler's is in other words, and needless.
var differences = []difference{
	{
		"What ends before it is a request is told so. Net/http says nothing if it is shorter than 4 bytes, and not the first.",
		func(ours, theirs *answered) bool { return ours.status == http.StatusBadRequest && theirs.status == 0 },
	},
	{
		"Every request of S3 has a Host: an empty one would be signed as any other, and then be the store's matter. Net/http takes it, and CONNECT without a Host line (but see RFC 9112, 3.2), and whatever a target has for one.",
		func(ours, theirs *answered) bool {
			host := theirs.header.Get(echoedHost)
			return ours.status == http.StatusBadRequest && theirs.handled() && (host == "" || !httpguts.ValidHostHeader(host) || theirs.header.Get(echoedMethod) == http.MethodConnect)
		},
	},
	{
		"Of two things that are wrong the Host is told first, and not by net/http if it is empty.",
		func(ours, theirs *answered) bool {
			return ours.status == http.StatusBadRequest && theirs.status == http.StatusExpectationFailed
		},
	},
	{
		"Nobody here speaks HTTP/2: net/http hands its preface to the handler.",
		func(ours, theirs *answered) bool {
			return ours.status == http.StatusHTTPVersionNotSupported && theirs.header.Get(echoedMethod) == "PRI"
		},
	},
	{
		"What is left of a body in chunks is not read away, but the connection ends: it could be long.",
		func(ours, theirs *answered) bool {
			return ours.body == theirs.body && ours.handled() && ours.closes && !theirs.closes && ours.header.Get(echoedLength) == "-1" && ours.leaves()
		},
	},
	{
		"A body that broke off is the last of its connection, as it is told.",
		func(ours, theirs *answered) bool {
			return ours.body == theirs.body && ours.handled() && ours.closes && !theirs.closes && strings.HasSuffix(ours.body, " broken=true")
		},
	},
	{
		"The answer does not wait for what is left of a short body, and cannot tell that it never comes.",
		func(ours, theirs *answered) bool {
			return ours.body == theirs.body && ours.handled() && !ours.closes && theirs.closes && ours.last && ours.header.Get(echoedLength) != "-1" && ours.leaves()
		},
	},
	{
		"What is left of a short body is read away, too, if its client was given leave to send it.",
		func(ours, theirs *answered) bool {
			return ours.body == theirs.body && ours.handled() && ours.asked && theirs.asked && !ours.closes && theirs.closes && ours.header.Get(echoedLength) != "-1" && ours.leaves()
		},
	},
	{
		"Behind a body whose length was told twice nothing is taken for a request (RFC 9112, 6.1): net/http goes on.",
		func(ours, theirs *answered) bool {
			sent := strings.ToLower(ours.sent)
			return ours.body == theirs.body && ours.handled() && ours.closes && !theirs.closes && ours.header.Get(echoedLength) == "-1" &&
				strings.Contains(sent, "transfer-encoding:") && strings.Contains(sent, "content-length:")
		},
	},
	{
		"Net/http finds 100-continue beside other words without a comma, and looks at the first of several Expect lines only.",
		func(ours, theirs *answered) bool {
			refused, taken := ours, theirs
			if theirs.status == http.StatusExpectationFailed {
				refused, taken = theirs, ours
			}
			return refused.status == http.StatusExpectationFailed && taken.status != refused.status && strings.ContainsAny(taken.header.Get(echoedExpect), " \t|,")
		},
	},
	{
		"Net/http's server finds close beside other words without a comma, where http.Request.Close says otherwise.",
		func(ours, theirs *answered) bool {
			return ours.body == theirs.body && ours.handled() && !ours.closes && theirs.closes && strings.ContainsAny(ours.header.Get(echoedConnection), " \t")
		},
	},
	{
		"No connection of HTTP/1.0 is kept: http.ReadRequest drops a transfer encoding, and takes the body for the next request. Net/http keeps one even if it is asked to close it.",
		func(ours, theirs *answered) bool {
			return ours.body == theirs.body && ours.handled() && ours.closes && !theirs.closes && ours.header.Get(echoedProto) == "HTTP/1.0"
		},
	},
}

// intended returns why it is intended that the answers differ; "" if it is not.
func intended(ours, theirs *answered) string {
	for _, d := range differences {
		if d.is(ours, theirs) {
			return d.why
		}
	}
	return ""
}

// leaves reports whether the handler did not read all of the body.
func (a *answered) leaves() bool {
	target := a.header.Get(echoedTarget)
	return strings.Contains(target, "none") || strings.Contains(target, "part")
}

// needless reports whether one has sent a 100 Continue for no bytes: ours does, for
// botocore waits for it, and theirs does not.
func needless(ours, theirs *answered) bool {
	return ours.asked && !theirs.asked && ours.header.Get(echoedLength) == "0"
}
