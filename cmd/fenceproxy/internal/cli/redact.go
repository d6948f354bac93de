package cli

import (
	"regexp"
)

var passwords = regexp.MustCompile(`(?i)(://[^:@/\s]*):\S*@|\b((?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&]+)`)

// redact takes passwords out of whatever looks like a URL or a connection
// string: the last line of defence, since nothing here puts one into a message.
func redact(text string) string {
	return passwords.ReplaceAllStringFunc(text, func(match string) string {
		part := passwords.FindStringSubmatch(match)
		if part[1] != "" || part[2] == "" {
			return part[1] + ":xxxxx@"
		}
		return part[2] + "xxxxx"
	})
}
