package serveconfig

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// check finds what is wrong between keys. It goes by what could be read: a listener, or
// admin, of which a key could not is passed over, and so is what hangs on all of the file.
func (d *decoder) check() {
	c := d.config
	if len(c.Postgres) == 0 && len(c.S3) == 0 && d.whole("postgres") && d.whole("s3") {
		d.wrong("", "there is nothing to listen for: it has neither postgres nor s3")
	}
	taken := map[string]string{}
	if d.whole("admin") {
		d.checkAdmin(&c.Admin)
		if !strings.HasSuffix(c.Admin.Listen, ":0") { // any port that is free
			taken[c.Admin.Listen] = "admin.listen"
		}
	}
	take := func(path, listen string) {
		if other, ok := taken[listen]; ok {
			d.wrong(path, "%s is taken by %s", listen, other)
		}
		taken[listen] = path
	}
	for i := range c.Postgres {
		if path := index("postgres", i); d.whole(path) {
			d.checkPostgres(path, &c.Postgres[i])
			take(path+".listen", c.Postgres[i].Listen)
		}
	}
	for i := range c.S3 {
		if path := index("s3", i); d.whole(path) {
			d.checkS3(path, &c.S3[i])
			take(path+".listen", c.S3[i].Listen)
		}
	}
}

// whole reports whether all could be read that stands under path.
func (d *decoder) whole(path string) bool {
	return !slices.ContainsFunc(d.unread, func(at string) bool {
		return at == "" || at == path || isUnder(at, path) || isUnder(path, at)
	})
}

func isUnder(path, around string) bool {
	rest, ok := strings.CutPrefix(path, around)
	return ok && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}

func (d *decoder) checkAdmin(a *Admin) {
	if a.Listen == "" {
		return
	}
	if host, port, err := net.SplitHostPort(a.Listen); err != nil || !isPort(port, 0) {
		d.wrong("admin.listen", "%q is not host:port or :port", a.Listen)
	} else if host == "" {
		a.Listen = net.JoinHostPort("127.0.0.1", port)
	}
}

func (d *decoder) checkPostgres(path string, p *Postgres) {
	if !isSocket(p.Listen) {
		if host, port, err := net.SplitHostPort(p.Listen); err != nil || !isPort(port, 0) {
			d.wrong(path+".listen", "%q is neither host:port nor the path of a socket, which begins with /", p.Listen)
		} else if host == "" {
			d.wrong(path+".listen", "%q has no host: 127.0.0.1:%s is for this machine only, 0.0.0.0:%s or [::]:%s for all", p.Listen, port, port, port)
		}
		if d.given(path + ".socket_mode") {
			d.wrong(path+".socket_mode", "is for a socket, and listen is none")
		}
	}
	switch t := p.TLS; {
	case t == nil:
	case isSocket(p.Listen):
		d.wrong(path+".tls", "is not for a socket: no client of Postgres asks for TLS there")
	case t.ClientCA != "" && !t.Required:
		d.wrong(path+".tls.client_ca", "holds nobody up while tls.required is false: clients may come without TLS")
	case t.ClientCA == "" && t.VerifyUser:
		d.wrong(path+".tls.verify_user", "needs client_ca: the authorities whose certificates count")
	}
	d.checkUpstream(path+".upstream", &p.Upstream)
}

func (d *decoder) checkUpstream(path string, u *Upstream) {
	mode := u.TLS.Mode
	if !isSocket(u.Address) {
		if host, port, err := net.SplitHostPort(u.Address); err != nil || host == "" || !isPort(port, 1) {
			d.wrong(path+".address", "%q is neither host:port nor the path of a socket, which begins with /", u.Address)
		}
	} else if mode != "disable" {
		d.wrong(path+".tls.mode", "must be disable: Postgres has no TLS on a socket")
		return
	}
	path += ".tls"
	if mode == "disable" {
		for _, key := range []string{"ca", "cert", "key", "server_name", "direct"} {
			if d.given(path + "." + key) {
				d.wrong(path+"."+key, "is for TLS, and mode is disable")
			}
		}
		return
	}
	verified := strings.HasPrefix(mode, "verify-")
	switch {
	case mode == "verify-ca" && u.TLS.CA == "":
		d.wrong(path+".ca", "is missing: with mode verify-ca it is all that the server's certificate is held to")
	case u.TLS.CA != "" && !verified:
		d.wrong(path+".ca", "is not looked at with mode %s: use verify-full, or verify-ca", mode)
	}
	if u.TLS.Direct && mode == "prefer" {
		d.wrong(path+".direct", "leaves no choice, and mode is prefer: use require or more")
	}
	if (u.TLS.Cert == "") != (u.TLS.Key == "") {
		d.wrong(path, "cert and key go together")
	}
}

// given says whether the key is there.
func (d *decoder) given(path string) bool { _, ok := d.config.where[path]; return ok }

// wrong is fail for a key that may not be there: its place is then that of what
// is around it.
func (d *decoder) wrong(path, format string, args ...any) {
	p := d.config.Problem(path, format, args...)
	// Where the place came from a node it ends in :line:column.
	if rest, ok := strings.CutPrefix(p.Where, d.config.file+":"); ok && d.config.file != "" {
		line, column, _ := strings.Cut(rest, ":")
		p.line, _ = strconv.Atoi(line)
		p.column, _ = strconv.Atoi(column)
	}
	d.problems = append(d.problems, p)
}

// isSocket says whether an address is the path of a unix socket.
func isSocket(address string) bool {
	return strings.HasPrefix(address, "/") || strings.HasPrefix(address, "@")
}

func isPort(text string, least int) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && int(port) >= least
}
