// Package lockurl opens a lock service that a URL names:
//
//	etcd://user:password@h1:2379,h2:2379/prefix           etcds:// or ?tls with TLS
//	redis://user:password@h:6379/0?issuer=NAME            rediss:// or ?tls with TLS
//	redis+sentinel://user:password@h1:26379,h2:26379/0?master=NAME
//	redis+cluster://user:password@h1:6379,h2:6379
//	zk://user:password@h1:2181,h2:2181/path               ?tls with TLS
//
// Query parameters of all: tls, cacert (a file with the authorities that may
// have signed the servers' certificates; default: the system's), cert and key
// (files with the client's own). Of all redis: issuer (default "redis"), prefix
// (of the keys) and replicas. Of redis+sentinel: master, sentinel-user,
// sentinel-password. Any other parameter is refused.
//
// The path of etcd is Config.Prefix of etcdlock, that of zk Config.Root of
// zklock, with the defaults of these packages.
//
// No error of this package repeats a URL, since it may have a password in it.
package lockurl
