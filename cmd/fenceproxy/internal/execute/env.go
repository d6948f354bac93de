package execute

import (
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// environment is environ with the token in it; where S3 clients look for a
// session token only if s3, the URL of a proxy, is not "": they then go there.
func environment(environ []string, token guard.Token, s3 string) ([]string, error) {
	fenced, err := carrier.SetEnv(environ, token)
	if err != nil {
		return nil, err
	}
	if s3 == "" {
		fenced = without(fenced, carrier.EnvAWSSessionToken)
		for _, variable := range environ {
			if strings.HasPrefix(variable, carrier.EnvAWSSessionToken+"=") {
				fenced = append(fenced, variable)
			}
		}
		return fenced, nil
	}
	// The general endpoint too: a client that knows only that one would otherwise
	// go to the store itself.
	fenced = without(fenced, slices.Concat(s3Endpoints(), s3Distractions())...)
	for _, name := range s3Endpoints() {
		fenced = append(fenced, name+"="+s3)
	}
	return fenced, nil
}

func s3Endpoints() []string { return []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} }

// s3Distractions are variables that lead a client away from what environment
// sets, or from the keys beside it.
func s3Distractions() []string {
	return []string{
		"AWS_PROFILE", "AWS_DEFAULT_PROFILE", // the SDK for JavaScript then reads no keys from the environment
		"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
		"AWS_SECURITY_TOKEN",        // an older name of the session token, which boto looks for first
		"AWS_CREDENTIAL_EXPIRATION", // with which boto would want new keys at some time
	}
}

// without is environ without the variables of these names.
func without(environ []string, names ...string) []string {
	return slices.DeleteFunc(environ, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(names, name)
	})
}

// checkS3Proxy refuses a --s3 with which no client could work.
func (p *program) checkS3Proxy(cmd *cobra.Command, e *errand) error {
	if !cmd.Flags().Changed("s3") {
		return nil
	}
	u, err := url.Parse(e.s3)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return cli.Usage(cmd, "--s3 is not the URL of a proxy: it must read http://host:port or https://host:port")
	case e.print:
		return cli.Usage(cmd, "--s3 is for a command, and --print runs none")
	case p.Env("AWS_ACCESS_KEY_ID") == "" || p.Env("AWS_SECRET_ACCESS_KEY") == "":
		return cli.Usage(cmd, "--s3: no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to those that the proxy has for this client; keys from elsewhere carry no token")
	}
	e.s3 = strings.TrimRight(e.s3, "/")
	return nil
}
