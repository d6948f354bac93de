package main

import (
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// environment is environ with the token in it; where S3 clients look for a
// session token only if s3.
func environment(environ []string, token guard.Token, s3 bool) ([]string, error) {
	fenced, err := carrier.SetEnv(environ, token)
	if err != nil || s3 {
		return fenced, err
	}
	isSession := func(variable string) bool { return strings.HasPrefix(variable, carrier.EnvAWSSessionToken+"=") }
	fenced = slices.DeleteFunc(fenced, isSession)
	for _, variable := range environ {
		if isSession(variable) {
			fenced = append(fenced, variable)
		}
	}
	return fenced, nil
}
