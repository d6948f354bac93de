// Package serveconfig reads the configuration of `fenceproxy serve`.
//
// It comes from a YAML file (Read) or from the flags of one command line
// (FromValues), under the same rules: what is not a key is a mistake, and every
// mistake is told at once, with the line and column where it stands and the
// path of the key; only what keys mean for one another in a listener waits until
// all of them can be read. In a file's values ${NAME} stands for the environment's
// variable NAME, and $${ for ${; that happens after the YAML is parsed, so that
// no variable can be more than a value.
//
// The files that a configuration names, certificates and keys, are read by
// (*Config).LoadTLS and (*Config).LoadS3TLS, at each call anew. Secrets stand in the
// configuration itself, best as ${NAME}, and are in no error.
package serveconfig
