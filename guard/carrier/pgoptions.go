package carrier

import "strings"

// Options are a command line for the server process, split by
// pg_split_opts (src/backend/utils/init/postinit.c) and read by getopt in
// process_postgres_switches (src/backend/tcop/postgres.c).

const (
	optionSpace = " \t\n\v\f\r" // isspace in the C locale
	// switchesWithValue are those whose value follows, in the same argument or
	// in the next. The last one is the "-" of "--name=value".
	switchesWithValue = "BCDdcfhkNprStvW-"
)

// splitOptions splits at spaces that no backslash escapes, and takes the
// escapes away.
func splitOptions(options string) []string {
	var args []string
	for {
		options = strings.TrimLeft(options, optionSpace)
		if options == "" {
			return args
		}
		var arg []byte
		escaped := false
		at := 0
		for ; at < len(options); at++ {
			c := options[at]
			if !escaped && strings.IndexByte(optionSpace, c) >= 0 {
				break
			}
			if escaped = !escaped && c == '\\'; !escaped {
				arg = append(arg, c)
			}
		}
		args, options = append(args, string(arg)), options[at:]
	}
}

// joinOptions is the inverse of splitOptions.
func joinOptions(args []string) string {
	var b strings.Builder
	for i, arg := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		for j := range len(arg) {
			if c := arg[j]; c == '\\' || strings.IndexByte(optionSpace, c) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(arg[j])
		}
	}
	return b.String()
}

// withoutSwitch returns args without each setting (-c name=value, -cname=value
// or --name=value, or c at the end of a bundle of switches) that drop accepts.
func withoutSwitch(args []string, drop func(setting, text string) bool) []string {
	var kept []string
	for len(args) > 0 {
		at, used := valueSwitch(args)
		given := args[:used]
		args = args[used:]
		if at > 0 {
			last := given[used-1]
			if used == 1 {
				last = last[at+1:]
			}
			letter := given[0][at]
			setting, text, _ := strings.Cut(last, "=")
			if (letter == 'c' || letter == '-') && drop(setting, text) {
				if at > 1 {
					kept = append(kept, given[0][:at]) // the switches before it in the bundle
				}
				continue
			}
		}
		kept = append(kept, given...)
	}
	return kept
}

// valueSwitch finds the switch with a value in the first argument: where its
// letter is, 0 for nowhere, and how many arguments it and its value use.
func valueSwitch(args []string) (at, used int) {
	first := args[0]
	if first == "" || first[0] != '-' || first == "--" {
		return 0, 1
	}
	for at := 1; at < len(first); at++ {
		if strings.IndexByte(switchesWithValue, first[at]) < 0 {
			continue
		}
		if at == len(first)-1 && len(args) > 1 {
			return at, 2
		}
		return at, 1
	}
	return 0, 1
}
